"""The model of a published config as JSON: listed classes, words and bounded numbers alone."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from mmflatten.text import shorten
from mmflatten.untrusted.model_classes import WORDS, classes_of
from mmflatten.untrusted.model_numbers import MAX_ITEMS, NUMBERS
from mmflatten.untrusted.published import HubError

TUPLE = '__tuple__'  # key of a tuple's items: JSON has lists only, and some layers require tuples
MAX_DEPTH = 60

_MAX_VALUE = 80  # characters of a value in a message
_MAX_CLASSES = 40  # in a message
_ARGUMENT = re.compile(r'[A-Za-z]\w{0,63}', re.ASCII)
_WORD = re.compile(r'[\w-]{1,64}', re.ASCII)


def read_model(data: Any, scope: str, where: str, attentions: Collection[str]) -> Any:
    """Return the config of a model, with its tuples, after a check of each value.

    Args:
        data: content of a JSON file.
        scope: of the task.
        where: field of the file, for messages.
        attentions: names of the registered attentions.

    Raises:
        HubError: a class is not listed for its argument, a number is out of its bounds, or there is
            text or nesting that our configs do not have.
    """
    return _Reader(scope, attentions).read(data, where, argument='model', depth=0)


class _Reader:
    """Reads nested values, each with the argument that holds it."""

    def __init__(self, scope: str, attentions: Collection[str]) -> None:
        self.scope = scope
        self.attentions = attentions

    def read(self, value: Any, where: str, argument: str, depth: int) -> Any:
        if depth >= MAX_DEPTH:
            raise HubError(f'{where}: expected at most {MAX_DEPTH} nested values, got more.')
        match value:
            case dict() if list(value) == [TUPLE] and isinstance(value[TUPLE], list):
                return tuple(self.read(value[TUPLE], where, argument, depth + 1))
            case dict():
                return self._read_arguments(value, where, argument, depth)
            case list():
                return self._read_items(value, where, argument, depth)
            case None | bool():
                return value
            case int() | float():
                return _number(value, where, argument)
        return _word(value, where, argument)

    def _read_arguments(self, given: dict, where: str, argument: str, depth: int) -> dict:
        for name in given:
            if not _ARGUMENT.fullmatch(name):
                raise HubError(f'{where}: expected names of arguments, got {name[:_MAX_VALUE]!r}.')
        if 'type' in given:
            self._require_class(given['type'], where, argument)
        arguments = {}
        for name, item in given.items():
            if name == 'type':
                arguments[name] = item
            else:
                arguments[name] = self.read(item, f'{where}.{name}', name, depth + 1)
        return arguments

    def _read_items(self, items: list, where: str, argument: str, depth: int) -> list:
        if len(items) > MAX_ITEMS:
            raise HubError(
                f'{where}: expected at most {MAX_ITEMS} values, got {len(items)}. A published model'
                ' has no longer list.'
            )
        return [
            self.read(item, f'{where}[{number}]', argument, depth + 1)
            for number, item in enumerate(items)
        ]

    def _require_class(self, name: Any, where: str, argument: str) -> None:
        listed = classes_of(self.scope, argument, self.attentions)
        if isinstance(name, str) and name in listed:
            return
        expected = shorten(sorted(listed), _MAX_CLASSES) or 'no class for this argument'
        raise HubError(
            f'{where}.type: expected {expected}, got {str(name)[:_MAX_VALUE]!r}. A published model'
            ' holds classes of our configs only.'
        )


def _word(value: Any, where: str, argument: str) -> str:
    takes_word = argument in WORDS
    if takes_word and isinstance(value, str) and _WORD.fullmatch(value):
        return value
    expected = 'a word or a number' if takes_word else 'a number'
    raise HubError(
        f'{where}: expected {expected}, got {str(value)[:_MAX_VALUE]!r}. A published model has no'
        ' other text.'
    )


def _number(value: float, where: str, argument: str) -> float:
    if argument not in NUMBERS:
        raise HubError(
            f'{where}: expected an argument of our configs, got the number'
            f' {str(value)[:_MAX_VALUE]} for {argument}. Leave it out, or give the default.'
        )
    low, high = NUMBERS[argument]
    if not low <= value <= high:
        raise HubError(
            f'{where}: expected a number from {low:,} to {high:,}, got {str(value)[:_MAX_VALUE]}.'
            ' Published models have the sizes of our configs.'
        )
    return value
