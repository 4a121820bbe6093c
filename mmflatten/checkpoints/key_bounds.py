"""Bounds on the names in a checkpoint, so that a file cannot make their comparison take minutes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

MAX_KEYS = 10_000
MAX_LENGTH = 1000  # characters of a name
MAX_PARTS = 32  # of a name, between its dots


def require_short_keys(content: Any, path: str | Path) -> None:
    """Raise ValueError if a checkpoint, or one of its entries, has too many names, or too long
    ones.

    Args:
        content: what a file holds: weights by name, or entries with such weights.
        path: the file, for the message.
    """
    if not isinstance(content, Mapping):
        return
    _check(content, f'{path}')
    for entry, part in content.items():
        if isinstance(part, Mapping):
            _check(part, f'{path}, entry {entry!r}')


def _check(named: Mapping[Any, Any], where: str) -> None:
    if len(named) > MAX_KEYS:
        raise ValueError(f'{where}: expected at most {MAX_KEYS} names, got {len(named)}.')
    for name in named:
        if not isinstance(name, str):
            continue
        parts = 1 + name.count('.')
        if len(name) > MAX_LENGTH or parts > MAX_PARTS:
            raise ValueError(
                f'{where}: expected names of at most {MAX_LENGTH} characters and {MAX_PARTS} parts,'
                f' got {name[:40]!r}... with {len(name)} characters and {parts} parts.'
            )
