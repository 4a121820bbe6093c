"""The model of a config as JSON, and the check of one that comes from somebody else."""

import re
from collections.abc import Mapping
from typing import Any

from mmflatten.hub.allowed_classes import WORDS, types_of
from mmflatten.text import shorten
from mmflatten.untrusted.model_numbers import MAX_ITEMS, NUMBERS
from mmflatten.untrusted.published import HubError

TUPLE = '__tuple__'  # JSON has lists only, and some layers require tuples
_ARGUMENT = re.compile(r'[A-Za-z]\w{0,63}', re.ASCII)
_WORD = re.compile(r'[\w-]{1,64}', re.ASCII)
# not needed, or written in another way
_TRAINING = ('init_cfg', 'pretrained', 'loss', 'data_preprocessor')
_DEPTH = 60


def to_data(value: Any, where: str) -> Any:
    """Return a model's config with JSON's types only, without what only a training uses.

    Raises:
        HubError: a value, such as a class or a function, is not data.
    """
    match value:
        case Mapping():
            return {
                str(key): None if key == 'train_cfg' else to_data(item, f'{where}.{key}')
                for key, item in value.items()
                if key not in _TRAINING
            }
        case list() | tuple():
            items = [to_data(item, f'{where}[{number}]') for number, item in enumerate(value)]
            return items if isinstance(value, list) else {TUPLE: items}
        case None | bool() | int() | float() | str():
            return value
    raise HubError(
        f'{where}: expected numbers, text, lists and dictionaries, got {type(value).__name__}. A'
        ' published config is JSON: give classes by their registered names.'
    )


def accepted(
    value: Any, scope: str, where: str, argument: str = 'model', depth: int = _DEPTH
) -> Any:
    """Return what `to_data` wrote, with its tuples, if it holds nothing but listed classes, words
    and numbers.

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
                    raise HubError(
                        f'{where}.type: expected {known}, got {str(name)[:80]!r}. A published model'
                        ' holds classes of our configs only.'
                    )
            return {
                key: (
                    item
                    if key == 'type'
                    else accepted(item, scope, f'{where}.{key}', key, depth - 1)
                )
                for key, item in value.items()
            }
        case list() if len(value) <= MAX_ITEMS:
            return [
                accepted(item, scope, f'{where}[{number}]', argument, depth - 1)
                for number, item in enumerate(value)
            ]
        case str() if argument in WORDS and _WORD.fullmatch(value):
            return value
        case None | bool():
            return value
        case int() | float():
            return _number(value, where, argument)
        case list():
            raise HubError(
                f'{where}: expected at most {MAX_ITEMS} values, got {len(value)}. A published model'
                ' has no longer list.'
            )
    kind = 'a word or a number' if argument in WORDS else 'a number'
    raise HubError(
        f'{where}: expected {kind}, got {str(value)[:80]!r}. A published model has no other text.'
    )


def _number(value: float, where: str, argument: str) -> float:
    if argument not in NUMBERS:
        raise HubError(
            f'{where}: expected an argument of our configs, got the number {str(value)[:80]} for '
            f'{argument}. Leave it out, or give the default.'
        )
    low, high = NUMBERS[argument]
    if not low <= value <= high:
        raise HubError(
            f'{where}: expected a number from {low:,} to {high:,}, got {str(value)[:80]}. Published'
            ' models have the sizes of our configs.'
        )
    return value
