"""The file of a study, checked as it is read."""
from __future__ import annotations

import difflib
import math
import re
from collections import Counter, defaultdict
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from mmflatten.studies.study import BASE, FULL, SEED, Budget, Claim, Level, Study, StudyError, Throughput, Tune

ATTENTION, LINEAR_ATTENTION = 'attention', 'model.backbone.linear_attention'
MERGED = ('options', 'budget', 'throughput')
KEYS = (*(item.name for item in fields(Study) if item.name != 'seeds'), 'sizes')


def read_study(path: str | Path, size: str = FULL) -> Study:
    """Read a study file.

    Args:
        size: `full` is the file itself, another one a row of its `sizes`, which replaces parts of it.

    Raises:
        StudyError: a field is unknown, missing or has a value that makes no sense.
    """
    try:
        content = yaml.load(Path(path).read_text(encoding='utf-8'), _Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise StudyError(f'study {path} cannot be read: {" ".join(str(error).split())}') from error
    content = _mapping(content, f'study {path}')
    sizes = _mapping(content.pop('sizes', None), 'sizes')
    if size != FULL:
        if size not in sizes:
            raise StudyError(f'size ({size}) is none of {", ".join([FULL, *sizes])}')
        content = _resized(content, _mapping(sizes[size], f'sizes.{size}'))
    _known(content, KEYS, 'study')
    return _study(content, Path(path).stem, '' if size == FULL else f'-{size}')


def _study(content: dict, stem: str, suffix: str) -> Study:
    factors = _mapping(content.get('factors'), 'factors')
    seeds = _seeds(factors.pop(SEED, 1))
    levels = {name: _levels(name, given) for name, given in factors.items()}
    name = _text(content.get('name', stem), 'name')
    if not name or '/' in name or name.startswith('.'):
        raise StudyError(f'name ({name}) must be that of a folder, without a slash or a leading dot')
    excludable = {**levels, SEED: tuple(Level(str(seed), {}) for seed in seeds)}
    exclude = tuple(_pattern(item, excludable, f'exclude[{number}]')
                    for number, item in enumerate(_list(content.get('exclude'), 'exclude')))
    return Study(
        name=name + suffix, base=None if content.get(BASE) is None else _text(content[BASE], BASE),
        options=_mapping(content.get('options'), 'options'), factors=levels, seeds=seeds, exclude=exclude,
        budget=_budget(content.get('budget')), metrics=_metrics(content.get('metrics')),
        tune=_tune(content.get('tune')), throughput=_build(Throughput, content.get('throughput'), 'throughput'),
        claims=tuple(_claim(item, levels) for item in _list(content.get('claims'), 'claims')),
        description=_text(content.get('description', ''), 'description').strip())


def _resized(content: dict, changes: dict) -> dict:
    """The file with the changes of a size: factors keep the listed levels, parts in `MERGED` take new fields."""
    _known(changes, [key for key in KEYS if key != 'sizes'], 'sizes')
    factors = _mapping(content.get('factors'), 'factors')
    for name, kept in _mapping(changes.pop('factors', None), 'sizes.factors').items():
        given = factors.get(name)
        if isinstance(given, dict) and isinstance(kept, list):
            kept = [str(level) for level in kept]
            unknown = [level for level in kept if level not in map(str, given)]
            if unknown:
                raise StudyError(f'sizes: factor {name} has no level {", ".join(unknown)}; '
                                 f'it has {", ".join(map(str, given))}')
            kept = {level: options for level, options in given.items() if str(level) in kept}
        factors[name] = kept
    merged = {key: {**_mapping(content.get(key), key), **_mapping(value, f'sizes.{key}')} if key in MERGED else value
              for key, value in changes.items()}
    return {**content, **merged, 'factors': factors}


def _levels(factor: str, given: Any) -> tuple[Level, ...]:
    if isinstance(given, list) and factor == ATTENTION:
        levels = tuple(Level(str(name), {LINEAR_ATTENTION: {'_delete_': True, 'type': name}}) for name in given)
    elif isinstance(given, list):
        if '.' not in factor and factor != BASE:
            raise StudyError(f'factor {factor} is a list, which only {ATTENTION}, {BASE} and a field of the config can '
                             'be, such as model.backbone.drop_path_rate; give names with their options: '
                             '{name: {field: value}}')
        levels = tuple(Level(str(value), {factor: value}) for value in given)
    else:
        levels = tuple(Level(name, _mapping(options, f'factor {factor}, level {name}'))
                       for name, options in _mapping(given, f'factor {factor}').items())
    repeated = [name for name, times in Counter(level.name for level in levels).items() if times > 1]
    if repeated or not levels:
        raise StudyError(f'factor {factor} has {"the level " + repeated[0] + " twice" if repeated else "no level"}')
    return levels


def _seeds(given: Any) -> tuple[int, ...]:
    seeds = list(range(given)) if type(given) is int else given
    if not isinstance(seeds, list) or not seeds or not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise StudyError(f'factor {SEED} ({given}) must be a number of seeds, or a list of seeds')
    return tuple(_list(seeds, f'factor {SEED}'))


def _metrics(given: Any) -> dict[str, str]:
    metrics = _mapping(given, 'metrics') if not isinstance(given, list) else {
        _text(name, 'metrics'): 'higher' for name in _list(given, 'metrics')}
    if not metrics or not all(way in ('higher', 'lower') for way in metrics.values()):
        raise StudyError(f'metrics ({given}) must name figures of the test, each with higher or lower if that is '
                         'better: {accuracy/top1: higher}')
    return metrics


def _budget(given: Any) -> Budget:
    budget = _build(Budget, given, 'budget')
    if budget.epochs is budget.iterations is budget.seconds is None:
        raise StudyError('budget must give epochs, iterations or seconds of a run')
    return budget


def _tune(given: Any) -> Tune | None:
    if given is None:
        return None
    given = _mapping(given, 'tune')
    trials, log = given.pop('trials', 8), given.pop('log', True)
    if type(trials) is not int or trials < 2:
        raise StudyError(f'tune.trials ({trials}) must be a whole number from 2')
    if type(log) is not bool:
        raise StudyError(f'tune.log ({log}) must be true or false')
    for path, limits in given.items():
        if not (isinstance(limits, list) and len(limits) == 2 and all(map(_is_number, limits))
                and limits[0] < limits[1] and (limits[0] > 0 or not log)):
            raise StudyError(f'tune.{path} ({limits}) must be [low, high]' + (', both above zero' if log else ''))
    if not given:
        raise StudyError('tune must have a field of the config: {optim_wrapper.optimizer.lr: [1e-4, 1e-2]}')
    return Tune({path: (low, high) for path, (low, high) in given.items()}, trials, log)


def _claim(given: Any, factors: dict[str, tuple[Level, ...]]) -> Claim:
    given = _mapping(given, 'claims')
    _known(given, ('order', 'factor', 'where', 'source'), 'claims')
    text = _text(given.get('order', ''), 'claims: order')
    order = tuple(part.strip() for part in text.split('>'))
    names = {name: [level.name for level in levels] for name, levels in factors.items()}
    fitting = [name for name in ([str(given['factor'])] if 'factor' in given else names)
               if set(order) <= set(names.get(name, ()))]
    if len(order) < 2 or len(set(order)) < len(order) or len(fitting) != 1:
        raise StudyError(f'claims: order ({text}) must be levels of one factor from best to worst, as in a > b > c; '
                         f'there are {names}; with the same levels in two factors, give factor too')
    others = {name: levels for name, levels in factors.items() if name != fitting[0]}
    where = _pattern(given.get('where'), others, f'claims: where of {text}, levels of {fitting[0]}')
    return Claim(text, fitting[0], order, where, _text(given.get('source', ''), f'claims: source of {text}'))


def _pattern(given: Any, factors: dict[str, tuple[Level, ...]], where: str) -> dict[str, tuple[str, ...]]:
    """Factors, each with one level or several: `{task: detection, attention: [hydra, sima]}`."""
    pattern = {}
    for factor, levels in _mapping(given, where).items():
        _known([factor], factors, where)
        pattern[factor] = tuple(map(str, levels if isinstance(levels, list) else [levels]))
        _known(pattern[factor], [level.name for level in factors[factor]], f'{where}, factor {factor}')
    return pattern


def _build(cls: type, given: Any, where: str) -> Any:
    """A dataclass of figures above zero, each of the type that its field has; only an optional one may be null."""
    given, kinds = _mapping(given, where), {item.name: str(item.type) for item in fields(cls)}
    _known(given, kinds, where)
    return cls(**{name: _figure(value, kinds[name], f'{where}.{name}') for name, value in given.items()})


def _figure(given: Any, kind: str, where: str) -> Any:
    if kind.startswith('tuple'):
        if not _list(given, where):
            raise StudyError(f'{where} ({given}) must have one number at least')
        return tuple(_figure(item, 'float', where) for item in given)
    whole = kind.startswith('int')
    if given is None and 'None' in kind or _is_number(given) and given > 0 and not (whole and type(given) is float):
        return given
    raise StudyError(f'{where} ({given}) must be a {"whole " if whole else ""}number above zero')


def _is_number(given: Any) -> bool:
    return type(given) in (int, float) and math.isfinite(given)


def _text(given: Any, where: str) -> str:
    if not isinstance(given, str):
        raise StudyError(f'{where} ({given}) must be a text; put quotes around what YAML takes for something else')
    return given


def _list(given: Any, where: str) -> list:
    """A list that has nothing twice; null is an empty one."""
    if given is not None and not isinstance(given, list):
        raise StudyError(f'{where} ({given}) must be a list')
    for item in given or ():
        if given.count(item) > 1:
            raise StudyError(f'{where} ({given}) has {item} twice')
    return given or []


def _mapping(given: Any, where: str) -> dict:
    """A copy of a mapping, its keys as text; null is an empty one."""
    if given is not None and not isinstance(given, dict):
        raise StudyError(f'{where} ({given}) must be a mapping: names with a value each')
    return {str(key): value for key, value in (given or {}).items()}


def _known(given: Any, names: Any, where: str) -> None:
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(str(name), list(names), 1)
            raise StudyError(f'{where}: {name} is unknown{f", is {near[0]} meant?" if near else ""}; '
                             f'known: {", ".join(names) or "nothing"}')


class _Loader(yaml.SafeLoader):
    """YAML without repeated keys, where 1e-4 is a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        lines = defaultdict(list)
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != '<<':
                lines[key.value].append(str(key.start_mark.line + 1))
        for name, found in lines.items():
            if len(found) > 1:
                raise StudyError(f'{name} stands twice, in line {" and ".join(dict.fromkeys(found))}')
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver('tag:yaml.org,2002:float', re.compile(r'[-+]?\d+(\.\d*)?[eE][-+]?\d+$'),
                              list('-+0123456789'))
