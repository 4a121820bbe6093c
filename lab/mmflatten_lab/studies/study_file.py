"""Reading of study files."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mmflatten.untrusted.files import UnusableFile
from mmflatten.untrusted.yaml_files import read_yaml
from mmflatten_lab.studies.options import BASE
from mmflatten_lab.studies.study import Study
from mmflatten_lab.studies.study_fields import (
    MANY,
    StudyError,
    check_name,
    excerpt,
    read_pattern,
    text_keys,
)

FULL = 'full'
EXCLUDE = 'exclude'
MERGED = ('options', 'budget')  # parts whose single fields a size may change


def read_study(
    path: str | Path, size: str = FULL, fields: Mapping[str, Any] | None = None
) -> Study:
    """Read a study file.

    Args:
        size: `full` for the file itself, or one of its `sizes`, which replaces parts of it.
        fields: further changes, such as `{'budget.epochs': 2, 'factors.attention': ['softmax']}`.

    Raises:
        StudyError: a field is unknown, missing or invalid. The message names each field and its
            value.
    """
    path = Path(path)
    content = _with_paths(_mapping(_read_yaml(path), str(path)), path.parent)
    sizes = {FULL: {}, **_mapping(content.pop('sizes', None), 'sizes')}
    check_name('--size', size, sizes)
    content = _resized(content, _mapping(sizes[size], f'sizes.{size}'))
    content.setdefault('name', path.stem)
    try:
        study = Study.model_validate(_resized(content, _changes(fields or {})))
    except ValidationError as error:
        raise StudyError('\n'.join(map(_message, error.errors()))) from error
    if size == FULL:
        return study
    return study.model_copy(update={'name': f'{study.name}-{size}'})


def _read_yaml(path: Path) -> Any:
    try:
        return read_yaml(path)
    except UnusableFile as error:
        raise StudyError(str(error)) from error


def _with_paths(node: Any, folder: Path) -> Any:
    """Make each `base` that is a path relative to the folder of the study file a full path."""
    if not isinstance(node, dict):
        return node
    content = {}
    for key, item in node.items():
        if key == BASE and isinstance(item, str) and (folder / item).is_file():
            content[key] = str(folder / item)
        else:
            content[key] = _with_paths(item, folder)
    return content


def _resized(content: dict, changes: dict) -> dict:
    """Apply a size: factors keep the listed levels, and exclusions those that remain; parts in
    `MERGED` take new fields, all else is replaced.
    """
    before = _mapping(content.get('factors'), 'factors')
    factors = dict(before)
    for name, kept in _mapping(changes.pop('factors', None), 'sizes.factors').items():
        if isinstance(factors.get(name), dict) and not isinstance(kept, dict):
            kept = _kept_levels(name, factors[name], kept)
        elif name not in factors:
            check_name('factors', name, factors)
        factors[name] = kept
    resized = {**content, **changes, 'factors': factors}
    if factors != before and EXCLUDE in content and EXCLUDE not in changes:
        resized[EXCLUDE] = _kept_exclusions(content[EXCLUDE], before, factors)
    for key in MERGED:
        if key in changes:
            before = _mapping(content.get(key), key)
            resized[key] = {**before, **_mapping(changes[key], f'sizes.{key}')}
    return resized


def _kept_levels(factor: str, levels: dict, kept: Any) -> dict[str, Any]:
    """Levels that a size keeps, in the order of the factor."""
    levels = text_keys(levels)
    listed = kept if isinstance(kept, (list, tuple)) else [kept]
    names = list(map(str, listed))
    for name in names:
        check_name(f'sizes.factors.{factor}', name, levels)
    return {name: options for name, options in levels.items() if name in names}


def _kept_exclusions(exclude: Any, before: dict, after: dict) -> Any:
    """Exclusions without the levels that a size leaves out. Names that the file does not have stay,
    for the message of the check.
    """
    if not isinstance(exclude, list):
        return exclude
    kept = []
    for pattern in map(read_pattern, exclude):
        if isinstance(pattern, dict):
            pattern = {
                factor: _without(names, _names(before.get(factor)) - _names(after.get(factor)))
                for factor, names in pattern.items()
            }
            if not all(pattern.values()) or pattern in kept:
                continue  # it excludes nothing that remains, or the same as another
        kept.append(pattern)
    return kept


def _names(levels: Any) -> set[str]:
    """Names of the levels of a factor, in any form that a file may give them."""
    if type(levels) is int:  # a number of seeds
        levels = range(min(levels, MANY))
    return set(map(str, levels)) if isinstance(levels, Iterable) else set()


def _without(names: list[str], left_out: set[str]) -> list[str]:
    return [name for name in names if name not in left_out]


def _changes(fields: Mapping[str, Any]) -> dict:
    """Convert changes of the command line to the form of a size."""
    changes: dict[str, Any] = {}
    for name, value in fields.items():
        part, _, field = name.partition('.')
        if field:
            changes.setdefault(part, {})[field] = value
        else:
            changes[part] = value
    return changes


def _mapping(value: Any, where: str) -> dict:
    value = text_keys(value)
    if not isinstance(value, dict):
        raise StudyError(
            f'{where}: expected a mapping, got {excerpt(value)}. Write names with a value each.'
        )
    return value


def _message(error: ErrorDetails) -> str:
    """Format an error of pydantic, or one that our validators raised with field and value, as one
    line.
    """
    where = ''
    for part in error['loc']:
        where += f'[{part}]' if isinstance(part, int) else f'.{part}'
    where = where.lstrip('.')
    text = error['msg'].removeprefix('Value error, ')
    if error['type'] == 'value_error':
        return f'{where}: {text}' if where else text
    if error['type'] == 'missing':
        return f'{where}: {text}.'
    return f'{where}: {text}, got {excerpt(error["input"])}.'
