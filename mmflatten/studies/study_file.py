"""Reading of study files."""
import re
import warnings
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mmflatten.studies.study import Study, StudyError, check_name, shown, text_keys

FULL = 'full'
MAX_BYTES, MAX_VALUES = 2**20, 100_000
MERGED = ('options', 'budget')  # parts of which a size may give single fields


def read_study(path: str | Path, size: str = FULL, fields: Mapping[str, Any] | None = None,
               only: Mapping[str, Any] | None = None) -> Study:
    """Read a study file.

    Args:
        size: `full` for the file itself, or one of its `sizes`, which replaces parts of it.
        fields: further changes, such as `{'budget.epochs': 2}`.
        only: factor -> level, or a list of those that remain. Claims about others are dropped.

    Raises:
        StudyError: a field is unknown, missing or invalid. The message names each field and its value.
    """
    content = _mapping(_read_yaml(Path(path)), str(path))
    sizes = {FULL: {}, **_mapping(content.pop('sizes', None), 'sizes')}
    check_name('--size', size, sizes)
    for part in (content, sizes[size]):
        if isinstance(part, dict) and part.pop('throughput', None) is not None:
            warnings.warn(f'throughput: studies do not measure speed any more. Remove it from {path} and use '
                          '`mmflatten benchmark`.', FutureWarning, stacklevel=2)
    content = {'name': Path(path).stem, **_resized(content, _mapping(sizes[size], f'sizes.{size}'))}
    try:
        study = Study.model_validate(_resized(content, _changes(fields or {})))
    except ValidationError as error:
        raise StudyError('\n'.join(map(_message, error.errors()))) from error
    study = study.keep(only or {})
    return study if size == FULL else study.model_copy(update={'name': f'{study.name}-{size}'})


def _read_yaml(path: Path) -> Any:
    """Read YAML that has at most `MAX_VALUES` values when its aliases are written out."""
    if path.exists() and not (path.is_file() and path.stat().st_size <= MAX_BYTES):
        raise StudyError(f'{path}: expected a file of at most {MAX_BYTES // 2**20} MiB, got a larger one or no file.')
    try:
        loader = _Loader(path.read_text(encoding='utf-8'))
        node = loader.get_single_node()
        if _num_values(node, {}) > MAX_VALUES:
            raise StudyError(f'{path}: expected at most {MAX_VALUES} values, got more, aliases included. Write fewer.')
        return loader.construct_document(node) if node else None
    except RecursionError as error:
        raise StudyError(f'{path}: expected a study file, got values that are nested too deeply.') from error
    except (yaml.YAMLError, ValueError) as error:
        if isinstance(error, StudyError):
            raise
        raise StudyError(f'{path}: expected a YAML file in UTF-8, got: {shown(str(error))}') from error


def _num_values(node: yaml.Node | None, known: dict[yaml.Node, int]) -> int:
    if isinstance(node, yaml.CollectionNode) and node not in known:
        parts = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
        known[node] = 1 + sum(_num_values(part, known) for part in parts)
    return known.get(node, 1)


def _resized(content: dict, changes: dict) -> dict:
    """Apply a size: factors keep the listed levels, parts in `MERGED` take new fields, all else is replaced."""
    factors = _mapping(content.get('factors'), 'factors')
    for name, kept in _mapping(changes.pop('factors', None), 'sizes.factors').items():
        if isinstance(factors.get(name), dict) and isinstance(kept, list):
            levels, names = text_keys(factors[name]), list(map(str, kept))
            for level in names:
                check_name(f'sizes.factors.{name}', level, levels)
            kept = {level: options for level, options in levels.items() if level in names}
        elif name not in factors:
            check_name('factors', name, factors)
        factors[name] = kept
    merged = {key: {**_mapping(content.get(key), key), **_mapping(changes[key], f'sizes.{key}')}
              for key in MERGED if key in changes}
    return {**content, **changes, **merged, 'factors': factors}


def _changes(fields: Mapping[str, Any]) -> dict:
    """Write changes of the command line as a size."""
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
        raise StudyError(f'{where}: expected a mapping, got {shown(value)}. Write names with a value each.')
    return value


def _message(error: ErrorDetails) -> str:
    """One line for an error of pydantic, or for one that a validator of ours raised with field and value."""
    where = ''.join(f'[{part}]' if isinstance(part, int) else f'.{part}' for part in error['loc']).lstrip('.')
    text = error['msg'].removeprefix('Value error, ')
    if error['type'] == 'value_error':
        return f'{where}: {text}' if where else text
    return f'{where}: {text}.' if error['type'] == 'missing' else f'{where}: {text}, got {shown(error["input"])}.'


class _Loader(yaml.SafeLoader):
    """YAML without repeated keys, where 1e-4 is a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        names = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != '<<':
                if key.value in names:
                    raise yaml.MarkedYAMLError(problem=f'{key.value} is repeated', problem_mark=key.start_mark)
                names.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver('tag:yaml.org,2002:float', re.compile(r'[-+]?\d+(\.\d*)?[eE][-+]?\d+$'),
                              list('-+0123456789'))
