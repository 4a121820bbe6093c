"""Files of JSON, and the types of their fields."""

import json
import os
import types
from collections.abc import Collection
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from mmflatten.untrusted.files import DamagedFile, UnusableFile, read_text

MAX_BYTES = 2**26  # of a file that this project writes
MAX_DIGITS = 300  # of a number: more do not fit a float, and take long to convert
FEW = 100  # characters of a value in a message


def parse_json(path: str | os.PathLike, text: str) -> Any:
    """Parse the text of a JSON file, whose integers of more than `MAX_DIGITS` become floats. Raises
    UnusableFile.
    """
    try:
        return json.loads(text, parse_int=_parse_int)
    except json.JSONDecodeError as error:
        raise UnusableFile(f'{path}:{error.lineno}: expected JSON, got {error}.') from error
    except (ValueError, RecursionError) as error:
        raise UnusableFile(f'{path}: expected JSON, got {error}.') from error


def _parse_int(digits: str) -> int | float:
    return int(digits) if len(digits) < MAX_DIGITS else float(digits)


def read_json(
    path: Path, kind: type | None = None, required: Collection[str] = ()
) -> dict[str, Any]:
    """Read the fields of a JSON file; {} if it does not exist.

    Args:
        kind: class whose annotations are the types of the fields. Fields that it does not have are
            left out. None for any fields.
        required: fields that may not be missing.

    Raises:
        DamagedFile: the file cannot be read as such fields. The message has its path and the first
            wrong field.
    """
    if not os.path.lexists(path):
        return {}
    try:
        content = parse_json(path, read_text(path, MAX_BYTES))
    except UnusableFile as error:
        raise DamagedFile(str(error)) from error
    if not isinstance(content, dict):
        raise DamagedFile(f'{path}: expected a dictionary, got {str(content)[:FEW]}.')
    for name in required:
        if name not in content:
            present = ', '.join(content)[:FEW] or 'no field'
            raise DamagedFile(f'{path}: expected the field {name}, got {present}.')
    if kind is None:
        return content
    fields = {}
    for name, hint in _hints(kind).items():
        if name not in content:
            continue
        value = content[name]
        if not fits(value, hint):
            expected = getattr(hint, '__name__', hint)
            raise DamagedFile(f'{path}: expected {expected} for {name}, got {str(value)[:FEW]}.')
        fields[name] = value
    return fields


def fits(value: Any, hint: Any) -> bool:
    """Return True if a value from JSON has an annotated type. Integers fit float, and dictionaries
    a data class.
    """
    arguments = get_args(hint)
    origin = get_origin(hint)
    if origin is types.UnionType:
        return any(fits(value, argument) for argument in arguments)
    if origin is dict:
        return isinstance(value, dict) and all(fits(item, arguments[1]) for item in value.values())
    if origin is list:
        return isinstance(value, list) and all(fits(item, arguments[0]) for item in value)
    if isinstance(hint, type) and is_dataclass(hint):
        return isinstance(value, dict) and _fit_fields(value, _hints(hint))
    if hint is float:
        return type(value) in (float, int)
    return hint is Any or type(value) is hint


def _fit_fields(fields: dict[str, Any], hints: dict[str, Any]) -> bool:
    return all(fits(value, hints.get(name, Any)) for name, value in fields.items())


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
