"""The model of a config as JSON, and the check of one that comes from somebody else."""
import re
from collections.abc import Mapping
from typing import Any

from mmflatten.hub.allowed_classes import WORDS, types_of
from mmflatten.text import shorten

TUPLE = '__tuple__'  # JSON has lists only, and some layers require tuples
_ARGUMENT = re.compile(r'[A-Za-z]\w{0,63}', re.ASCII)
_WORD = re.compile(r'[\w-]{1,64}', re.ASCII)
_TRAINING = ('init_cfg', 'pretrained', 'loss', 'data_preprocessor')  # not needed, or written in another way
_DEPTH, _ITEMS = 60, 4096
_LARGEST, _LIMITS = 2**14, dict(  # classes, steps of a training, and sides of maps that a forward pass makes
    num_classes=2**20, progressive_norm=2**40, pool_scales=2**6, output_size=2**6, sampling_ratio=2**6)


class HubError(ValueError):
    """A published model is missing, damaged or not accepted, or cannot be written."""


def to_data(value: Any, where: str) -> Any:
    """Return a model's config with JSON's types only, without what only a training uses.

    Raises:
        HubError: a value, such as a class or a function, is not data.
    """
    match value:
        case Mapping():
            return {str(key): None if key == 'train_cfg' else to_data(item, f'{where}.{key}')
                    for key, item in value.items() if key not in _TRAINING}
        case list() | tuple():
            items = [to_data(item, f'{where}[{number}]') for number, item in enumerate(value)]
            return items if isinstance(value, list) else {TUPLE: items}
        case None | bool() | int() | float() | str():
            return value
    raise HubError(f'{where}: expected numbers, text, lists and dictionaries, got {type(value).__name__}. A published '
                   'config is JSON: give classes by their registered names.')


def accepted(value: Any, scope: str, where: str, argument: str = 'model', depth: int = _DEPTH) -> Any:
    """Return what `to_data` wrote, with its tuples, if it holds nothing but listed classes, words and numbers.

    Args:
        scope: of the task.
        where: field of the config, for messages.
        argument: which holds the value.

    Raises:
        HubError: it holds something else, or too much.
    """
    if not depth:
        raise HubError(f'{where}: expected at most {_DEPTH} nested values, got more.')
    match value:
        case dict() if value.keys() == {TUPLE} and isinstance(value[TUPLE], list):
            return tuple(accepted(value[TUPLE], scope, where, argument, depth - 1))
        case dict():
            if wrong := [key for key in value if not _ARGUMENT.fullmatch(key)]:
                raise HubError(f'{where}: expected names of arguments, got {wrong[0][:80]!r}.')
            if 'type' in value:
                name, names = value['type'], types_of(scope, argument)
                if not isinstance(name, str) or name not in names:
                    known = shorten(sorted(names), 40) or 'no class for this argument'
                    raise HubError(f'{where}.type: expected {known}, got {str(name)[:80]!r}. A published model holds '
                                   'classes of our configs only.')
            return {key: item if key == 'type' else accepted(item, scope, f'{where}.{key}', key, depth - 1)
                    for key, item in value.items()}
        case list() if len(value) <= _ITEMS:
            return [accepted(item, scope, f'{where}[{number}]', argument, depth - 1)
                    for number, item in enumerate(value)]
        case str() if argument in WORDS and _WORD.fullmatch(value):
            return value
        case None | bool():
            return value
        case int() | float() if abs(value) <= _LIMITS.get(argument, _LARGEST):
            return value
    kinds = 'a word or numbers' if argument in WORDS else 'numbers'
    raise HubError(f'{where}: expected {kinds} up to {_LIMITS.get(argument, _LARGEST)}, got {str(value)[:80]!r}. '
                   'A published model has no other text.')
