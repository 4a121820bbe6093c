"""Reading of small JSON files that this project writes. A damaged one is named, and can be set aside."""
from __future__ import annotations

import os
import types
from collections.abc import Collection
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from mmflatten.files import UnusableFile, parse_json, read_text

MAX_BYTES = 64 * 2**20
FEW = 100  # characters of a value in a message


class DamagedFile(ValueError):
    """A file is not what this project writes: cut off, of another type or with wrong values."""


def read_json(path: Path, kind: type | None = None, required: Collection[str] = ()) -> dict[str, Any]:
    """Read the fields of a JSON file; {} if it does not exist.

    Args:
        kind: class whose annotations are the types of the fields. Fields that it does not have are left out. None for
            any fields.
        required: fields that may not be missing.

    Raises:
        DamagedFile: the file cannot be read as such fields. The message has its path and the first wrong field.
    """
    if not os.path.lexists(path):
        return {}
    try:
        content = parse_json(path, read_text(path, MAX_BYTES))
    except UnusableFile as error:
        raise DamagedFile(str(error)) from error
    if not isinstance(content, dict):
        raise DamagedFile(f'{path}: expected a dictionary, got {str(content)[:FEW]}.')
    missing = [name for name in required if name not in content]
    if missing:
        raise DamagedFile(f'{path}: expected the field {missing[0]}, got {", ".join(content)[:FEW] or "no field"}.')
    hints = dict.fromkeys(content, Any) if kind is None else _hints(kind)
    for name, value in content.items():
        if name in hints and not fits(value, hints[name]):
            raise DamagedFile(f'{path}: expected {getattr(hints[name], "__name__", hints[name])} for {name}, got '
                              f'{str(value)[:FEW]}.')
    return {name: value for name, value in content.items() if name in hints}


def set_aside(path: Path) -> Path:
    """Rename a damaged file to `NAME.bad`, in place of an earlier one, and return the new path."""
    bad = path.with_name(f'{path.name}.bad')
    os.replace(path, bad)
    return bad


def fits(value: Any, hint: Any) -> bool:
    """Return True if a value from JSON has an annotated type. Integers fit float, and dictionaries a data class."""
    arguments = get_args(hint)
    match get_origin(hint):
        case types.UnionType:
            return any(fits(value, argument) for argument in arguments)
        case origin if origin is dict:
            return isinstance(value, dict) and all(fits(item, arguments[1]) for item in value.values())
        case origin if origin is list:
            return isinstance(value, list) and all(fits(item, arguments[0]) for item in value)
    if is_dataclass(hint):
        hints = _hints(hint)
        return isinstance(value, dict) and all(fits(item, hints.get(name, Any)) for name, item in value.items())
    return hint is Any or type(value) is hint or hint is float and type(value) is int


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
