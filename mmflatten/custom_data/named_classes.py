"""Base configs whose types are classes, as those with MMEngine's `read_base`: a config of names can
inherit only another one of names.
"""

from mmengine.config import Config


def has_classes(cfg: Config) -> bool:
    """Return True for a config whose types are classes."""
    return not isinstance((cfg.get('model') or {}).get('type', ''), str)


def with_names(cfg: Config) -> Config:
    """Return a config with the full names of the classes.

    The library of the model becomes `default_scope` if there is none.
    """
    named = Config(cfg.to_dict(), filename=cfg.filename)
    if not named.get('default_scope'):
        named.default_scope = named.model.type.partition('.')[0]
    return named


def named_config_text(cfg: Config) -> str:
    """Write a config of `with_names`."""
    origin = f'"""{cfg.filename} with names of classes; from `mmflatten init`."""'
    return f'{origin}\n{cfg.pretty_text}'
