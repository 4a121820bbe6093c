"""The model of a config as JSON for a published model, and back with the registered attentions."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from mmflatten.registry import MODELS, SCOPE
from mmflatten.requirements import MIXERS
from mmflatten.untrusted.model_data import TUPLE, read_model
from mmflatten.untrusted.published import HubError

# Used by a training only, or stored elsewhere in the folder.
_LEFT_OUT = ('init_cfg', 'pretrained', 'loss', 'data_preprocessor')


def to_data(value: Any, where: str) -> Any:
    """Return a model's config with JSON's types only, without what only a training uses.

    Raises:
        HubError: a value, such as a class or a function, is not data.
    """
    match value:
        case Mapping():
            return _arguments_to_data(value, where)
        case list() | tuple():
            items = [to_data(item, f'{where}[{number}]') for number, item in enumerate(value)]
            return {TUPLE: items} if isinstance(value, tuple) else items
        case None | bool() | int() | float() | str():
            return value
    raise HubError(
        f'{where}: expected numbers, text, lists and dictionaries, got {type(value).__name__}. A'
        ' published config is JSON: give classes by their registered names.'
    )


def _arguments_to_data(arguments: Mapping, where: str) -> dict[str, Any]:
    data = {}
    for name, item in arguments.items():
        if name == 'train_cfg':  # MaskRCNN requires the argument
            data[name] = None
        elif name not in _LEFT_OUT:
            data[str(name)] = to_data(item, f'{where}.{name}')
    return data


def accepted(data: Any, scope: str, where: str) -> Any:
    """Return the model that `to_data` wrote, after the check of `read_model`. Errors are its own.

    Args:
        scope: of the task.
        where: field of the config, for messages.
    """
    return read_model(data, scope, where, _attentions())


@cache
def _attentions() -> frozenset[str]:
    """Return the names of our attentions and of those that installed packages declare."""
    from mmflatten.models import attention

    MODELS.import_from_location()
    declared = {*attention.__all__, *(entry.name for entry in entry_points(group=MIXERS))}
    names = declared & MODELS.module_dict.keys()
    return frozenset({*names, *(f'{SCOPE}.{name}' for name in names)})
