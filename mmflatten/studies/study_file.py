"""Reading of study files."""
from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mmflatten.studies.study import FULL, Budget, Claim, Study, StudyError, Throughput, text_keys, unknown

MERGED = ('options', 'budget', 'throughput')  # parts of which a size may give single fields
EXPECTED = {  # type of an error of pydantic -> expected value, fix
    'missing': ('a value', 'Add it'),
    'model_type': ('a mapping', 'Write names with a value each'),
    'dict_type': ('a mapping', 'Write names with a value each'),
    'list_type': ('a list', 'Put it in brackets'),
    'string_type': ('text', 'Put it in quotes'),
    'bool_type': ('true or false', 'Write one of them'),
    'int_type': ('an integer', 'Write digits alone'),
    'float_type': ('a number', 'Write digits alone'),
    'finite_number': ('a finite number', 'Use a smaller one'),
    'greater_than': ('a number above {gt}', 'Use a larger one'),
    'greater_than_equal': ('a number of at least {ge}', 'Use a larger one'),
    'literal_error': ('{expected}', 'Write one of them'),
    'too_short': ('{min_length} or more items', 'Add the missing ones'),
    'too_long': ('{max_length} items', 'Remove the others'),
}


def read_study(path: str | Path, size: str = FULL) -> Study:
    """Read a study file.

    Args:
        size: `full` for the file itself, or one of its `sizes`, which replaces parts of it.

    Raises:
        StudyError: a field is unknown, missing or invalid. The message names each field, its value and the fix.
    """
    try:
        content = yaml.load(Path(path).read_text(encoding='utf-8'), _Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise StudyError(f'{path}: expected a YAML file in UTF-8, got: {" ".join(str(error).split())}') from error
    content = _mapping(content, str(path))
    sizes = _mapping(content.pop('sizes', None), 'sizes')
    if size != FULL:
        if size not in sizes:
            raise StudyError(f'--size: {unknown(size, [FULL, *sizes])}')
        content = _resized(content, _mapping(sizes[size], f'sizes.{size}'))
    try:
        study = Study.model_validate({'name': Path(path).stem, **content})
    except ValidationError as error:
        raise StudyError('\n'.join(map(_message, error.errors()))) from error
    return study if size == FULL else study.model_copy(update={'name': f'{study.name}-{size}'})


def _resized(content: dict, changes: dict) -> dict:
    """Apply a size: factors keep the listed levels, parts in `MERGED` take new fields, all else is replaced."""
    factors = _mapping(content.get('factors'), 'factors')
    for name, kept in _mapping(changes.pop('factors', None), 'sizes.factors').items():
        if isinstance(factors.get(name), dict) and isinstance(kept, list):
            levels = text_keys(factors[name])
            for level in kept:
                if str(level) not in levels:
                    raise StudyError(f'sizes.factors.{name}: {unknown(level, levels)}')
            kept = {level: options for level, options in levels.items() if level in map(str, kept)}
        factors[name] = kept
    merged = {key: {**_mapping(content.get(key), key), **_mapping(changes[key], f'sizes.{key}')}
              for key in MERGED if key in changes}
    return {**content, **changes, **merged, 'factors': factors}


def _mapping(value: Any, where: str) -> dict:
    value = text_keys(value)
    if not isinstance(value, dict):
        raise StudyError(f'{where}: expected a mapping, got {value}. Write names with a value each.')
    return value


def _message(error: ErrorDetails) -> str:
    """One line for an error: field, problem, value and fix."""
    raised = error.get('ctx', {}).get('error')
    if isinstance(raised, StudyError):  # names its field itself
        return str(raised)
    where = ''.join(f'[{part}]' if isinstance(part, int) else f'.{part}' for part in error['loc']).lstrip('.')
    if raised is not None:
        return f'{where}: {raised}'
    if error['type'] == 'extra_forbidden':
        part = {'budget': Budget, 'throughput': Throughput, 'claims': Claim}.get(error['loc'][0], Study)
        known = [name for name in (*part.model_fields, *(['sizes'] if part is Study else [])) if name != 'seeds']
        return f'{where}: unknown field, {unknown(error["loc"][-1], known)}'
    expected, fix = EXPECTED.get(error['type'], ('another value', 'Change it'))
    value = 'none' if error['type'] == 'missing' else error['input']
    return f'{where}: expected {expected.format_map(error.get("ctx", {}))}, got {value}. {fix}.'


class _Loader(yaml.SafeLoader):
    """YAML without repeated keys, where 1e-4 is a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        lines = defaultdict(list)
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != '<<':
                lines[key.value].append(str(key.start_mark.line + 1))
        for name, places in lines.items():
            if len(places) > 1:
                numbers = ' and '.join(dict.fromkeys(places))
                raise StudyError(f'{name}: expected once in a mapping, got lines {numbers}. Remove one.')
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver('tag:yaml.org,2002:float', re.compile(r'[-+]?\d+(\.\d*)?[eE][-+]?\d+$'),
                              list('-+0123456789'))
