"""Data sets as the Runner builds them: a failure names the data set and where it reads."""
from typing import Any

from mmengine.registry import DATASETS

from mmflatten.datasets.locate import missing_data_hint
from mmflatten.engine.errors import error_text, is_ours

_PLACES = ('data_root', 'ann_file', 'data_prefix')


class DatasetError(RuntimeError):
    """A data set that cannot be built: files are missing, or hold something else than the config expects."""


def build_dataset(cfg: dict) -> Any:
    """Build a data set and read its list of samples.

    Raises:
        DatasetError: names the data set, the places it reads, and the command that makes them where one is known.
    """
    try:
        dataset = DATASETS.build(with_checked_annotations(cfg))
        if hasattr(dataset, 'full_init'):
            dataset.full_init()
    except FileNotFoundError as error:
        raise DatasetError(_missing(cfg, error)) from error
    except Exception as error:
        if is_ours(error):
            raise
        raise DatasetError(f'{_named(cfg)} cannot be read: {type(error).__name__}: {error_text(error)}; check that its '
                           'files are what the config expects, and that filter_cfg leaves samples') from error
    return dataset


def with_checked_annotations(cfg: dict) -> dict:
    """A copy of a data set's config with `CheckedCocoDataset` in place of `CocoDataset`, in wrapped data sets too."""
    cfg = dict(cfg)
    if isinstance(cfg.get('type'), str):
        with DATASETS.switch_scope_and_registry(cfg.get('_scope_')) as registry:
            kind = registry.get(cfg['type'])
        if f'{getattr(kind, "__module__", "")}.{getattr(kind, "__name__", "")}' == 'mmdet.datasets.coco.CocoDataset':
            from mmflatten.engine.coco_checks import CheckedCocoDataset
            cfg['type'] = CheckedCocoDataset
    for name, inner in cfg.items():
        if name == 'dataset' and isinstance(inner, dict):
            cfg[name] = with_checked_annotations(inner)
        elif name == 'datasets' and isinstance(inner, (list, tuple)):
            cfg[name] = [with_checked_annotations(part) if isinstance(part, dict) else part for part in inner]
    return cfg


def _missing(cfg: dict, error: FileNotFoundError) -> str:
    if error.filename is None:
        return f'{_named(cfg)}: {error_text(error)}'
    hint = missing_data_hint(error.filename) or 'check data_root, data_prefix and ann_file in the config'
    return f'{_named(cfg)} cannot find {error.filename}; {hint}'


def _named(cfg: dict) -> str:
    """Type and places of the data set, or of the first one that it wraps."""
    while isinstance(cfg.get('dataset'), dict):
        cfg = cfg['dataset']
    kind = cfg.get('type')
    places = ', '.join(f'{name}={cfg[name]}' for name in _PLACES if cfg.get(name))
    return f'data set {getattr(kind, "__name__", kind)} ({places})'
