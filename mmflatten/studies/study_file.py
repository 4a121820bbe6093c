"""The file of a study, checked as it is read."""
from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from mmflatten.studies.study import BASE, FULL, SEED, Budget, Claim, Level, Study, StudyError, Throughput, Tune

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
    except yaml.YAMLError as error:
        raise StudyError(f'study {path} cannot be read: {" ".join(str(error).split())}') from error
    content = _mapping(content, f'study {path}')
    sizes = _mapping(content.pop('sizes', None) or {}, 'sizes')
    if size != FULL:
        if size not in sizes:
            raise StudyError(f'size ({size}) is none of {", ".join([FULL, *sizes])}')
        content = _resized(content, _mapping(sizes[size], f'sizes.{size}'))
        content['name'] = f'{content.get("name", Path(path).stem)}-{size}'
    _known(content, KEYS, 'study')
    return _study(content, Path(path).stem)


def _study(content: dict, stem: str) -> Study:
    factors = dict(_mapping(content.get('factors') or {}, 'factors'))
    seeds = _seeds(factors.pop(SEED, 1))
    levels = {name: _levels(name, given) for name, given in factors.items()}
    metrics = content.get('metrics') or {}
    metrics = dict.fromkeys(metrics, 'higher') if isinstance(metrics, list) else _mapping(metrics, 'metrics')
    if not metrics or set(metrics.values()) - {'higher', 'lower'}:
        raise StudyError(f'metrics ({metrics}) must name figures of the test, each with higher or lower if that is '
                         'better: {accuracy/top1: higher}')
    excludable = {**levels, SEED: tuple(Level(str(seed), {}) for seed in seeds)}
    exclude = tuple(_pattern(item, excludable, f'exclude[{number}]')
                    for number, item in enumerate(content.get('exclude') or []))
    return Study(
        name=str(content.get('name', stem)), base=content.get(BASE), options=_mapping(content.get('options') or {},
        'options'), factors=levels, seeds=seeds, exclude=exclude, budget=_budget(content.get('budget')),
        metrics=metrics, tune=_tune(content.get('tune')), throughput=_throughput(content.get('throughput')),
        claims=tuple(_claim(item, levels) for item in content.get('claims') or []),
        description=str(content.get('description', '')).strip())


def _resized(content: dict, changes: dict) -> dict:
    """The file with the changes of a size: factors keep the levels that are listed, other parts take the new fields."""
    _known(changes, [key for key in KEYS if key != 'sizes'], 'sizes')
    factors = dict(content.get('factors') or {})
    for name, kept in _mapping(changes.pop('factors', None) or {}, 'sizes.factors').items():
        given = factors.get(name)
        if isinstance(given, dict) and isinstance(kept, list):
            kept = [str(level) for level in kept]
            unknown = [level for level in kept if level not in map(str, given)]
            if unknown:
                raise StudyError(f'sizes: factor {name} has no level {", ".join(unknown)}; '
                                 f'it has {", ".join(map(str, given))}')
            kept = {level: options for level, options in given.items() if str(level) in kept}
        factors[name] = kept
    merged = {key: {**content[key], **value} if isinstance(value, dict) and isinstance(content.get(key), dict)
              else value for key, value in changes.items()}
    return {**content, **merged, 'factors': factors}


def _levels(factor: str, given: Any) -> tuple[Level, ...]:
    if isinstance(given, list):
        if '.' not in factor and factor != BASE:
            raise StudyError(f'factor {factor} is a list, which only a field of the config can be, such as '
                             'model.backbone.drop_path_rate; give names with their options: {name: {field: value}}')
        levels = tuple(Level(str(value), {factor: value}) for value in given)
    else:
        levels = tuple(Level(str(name), _mapping(options or {}, f'factor {factor}, level {name}'))
                       for name, options in _mapping(given, f'factor {factor}').items())
    repeated = [name for name, times in Counter(level.name for level in levels).items() if times > 1]
    if repeated or not levels:
        raise StudyError(f'factor {factor} has {"the level " + repeated[0] + " twice" if repeated else "no level"}')
    return levels


def _seeds(given: Any) -> tuple[int, ...]:
    seeds = list(range(given)) if isinstance(given, int) else given
    if not isinstance(seeds, list) or not seeds or not all(isinstance(seed, int) and seed >= 0 for seed in seeds):
        raise StudyError(f'factor {SEED} ({given}) must be a number of seeds, or a list of seeds')
    if len(set(seeds)) < len(seeds):
        raise StudyError(f'factor {SEED} ({given}) has a seed twice')
    return tuple(seeds)


def _budget(given: Any) -> Budget:
    budget = _build(Budget, given, 'budget')
    for item in fields(Budget):
        value = getattr(budget, item.name)
        if value is not None and not (isinstance(value, (int, float)) and value > 0):
            raise StudyError(f'budget.{item.name} ({value}) must be a number above zero')
    if budget.epochs is budget.iterations is budget.seconds is None:
        raise StudyError('budget must give epochs, iterations or seconds of a run')
    return budget


def _tune(given: Any) -> Tune | None:
    if given is None:
        return None
    given = dict(_mapping(given, 'tune'))
    trials, log = given.pop('trials', 8), given.pop('log', True)
    if not isinstance(trials, int) or trials < 2:
        raise StudyError(f'tune.trials ({trials}) must be a whole number from 2')
    for path, limits in given.items():
        if not (isinstance(limits, list) and len(limits) == 2 and all(isinstance(x, (int, float)) for x in limits)
                and limits[0] < limits[1] and (limits[0] > 0 or not log)):
            raise StudyError(f'tune.{path} ({limits}) must be [low, high]' + (', both above zero' if log else ''))
    return Tune({path: (low, high) for path, (low, high) in given.items()}, trials, log)


def _throughput(given: Any) -> Throughput:
    built = _build(Throughput, given or {}, 'throughput')
    if not built.scales or min(*built.scales, built.batch, built.seconds) <= 0:
        raise StudyError(f'throughput ({given}) must have scales, a batch and seconds above zero')
    return Throughput(tuple(built.scales), built.batch, built.seconds)


def _claim(given: Any, factors: dict[str, tuple[Level, ...]]) -> Claim:
    given = _mapping(given, 'claims')
    _known(given, ('order', 'factor', 'where', 'source'), 'claims')
    text = str(given.get('order', ''))
    order = tuple(part.strip() for part in text.split('>'))
    names = {name: [level.name for level in levels] for name, levels in factors.items()}
    fitting = [name for name in ([given['factor']] if 'factor' in given else names)
               if set(order) <= set(names.get(name, ()))]
    if len(order) < 2 or len(set(order)) < len(order) or len(fitting) != 1:
        raise StudyError(f'claims: order ({text}) must be levels of one factor from best to worst, as in a > b > c; '
                         f'there are {names}; with the same levels in two factors, give factor too')
    return Claim(text, fitting[0], order, _pattern(given.get('where') or {}, factors, f'claims: where of {text}'),
                 str(given.get('source', '')))


def _pattern(given: Any, factors: dict[str, tuple[Level, ...]], where: str) -> dict[str, tuple[str, ...]]:
    """Factors, each with one level or several: `{task: detection, attention: [hydra, sima]}`."""
    pattern = {}
    for factor, levels in _mapping(given, where).items():
        pattern[factor] = tuple(map(str, levels if isinstance(levels, list) else [levels]))
        _known([factor], factors, where)
        _known(pattern[factor], [level.name for level in factors[factor]], f'{where}, factor {factor}')
    return pattern


def _build(cls: type, given: Any, where: str) -> Any:
    given = _mapping(given or {}, where)
    _known(given, [item.name for item in fields(cls)], where)
    return cls(**given)


def _mapping(given: Any, where: str) -> dict:
    if not isinstance(given, dict):
        raise StudyError(f'{where} ({given}) must be a mapping: names with a value each')
    return dict(given)


def _known(given: Any, names: Any, where: str) -> None:
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(str(name), list(names), 1)
            raise StudyError(f'{where}: {name} is unknown; {f"is {near[0]} meant?" if near else ""} '
                             f'There are {", ".join(names) or "none"}')


class _Loader(yaml.SafeLoader):
    """YAML without repeated keys, where 1e-4 is a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != '<<')
        repeated = [key for key, times in keys.items() if times > 1]
        if repeated:
            raise StudyError(f'{repeated[0]} stands twice in line {node.start_mark.line + 1} and the ones below it')
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver('tag:yaml.org,2002:float', re.compile(r'[-+]?\d+(\.\d*)?[eE][-+]?\d+$'),
                              list('-+0123456789'))
