"""The report of a study: tables, figures and claims from what is in its table."""
from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from math import isnan
from pathlib import Path
from statistics import mean

import pandas as pd

from mmflatten.studies.claims import judge, seed_means
from mmflatten.studies.figures import draw_costs, draw_ranks
from mmflatten.studies.folder import FAILED, FINISHED, Result
from mmflatten.studies.grid import BEST, GRID, TRIAL
from mmflatten.studies.statistics import Comparison, Interval, compare, holm, interval, pareto, rank
from mmflatten.studies.study import Study, StudyError, counted
from mmflatten.studies.table import read_table
from mmflatten.studies.tuning import sign, signed
from mmflatten.text_table import align

MACS = 'multiply-accumulates of an image (M)'
TIMES = ['seconds', 'image', 'images/s']
HOW_TO_READ = """Written by `mmflatten study ... --report`; docs/studies.md says how the figures are computed.
Intervals are 95 % of Student's t over seeds; differences are paired by seed, their p-values from t-tests with Holm's
correction over a table or over the claims of a study. What is inside the noise is called neither better nor worse."""
TITLES = {GRID: 'One recipe for all', BEST: 'Each at its best'}


def write_report(studies: Sequence[tuple[Study, Path]], page: Path) -> Path:
    """Write one page on studies; figures and a table of all runs go into a folder beside it that has its name.

    Args:
        studies: each with the folder of its results.
        page: a Markdown file; the figures of `page.md` are `page/*.png`.

    Raises:
        StudyError: a study has no finished run, or the file names other factors or metrics than its runs have.
    """
    beside = page.with_suffix('')
    found = [(study, _results(study, folder)) for study, folder in studies]
    beside.mkdir(parents=True, exist_ok=True)
    claims, parts = [], []
    for study, results in found:
        done = [result for result in results if result.state == FINISHED]
        _write_csv(results, beside / f'{study.name}.csv')
        parts += _head(study, results)
        for mode, title in TITLES.items():
            chosen = [result for result in done if result.mode == mode]
            if chosen:
                claims += _claims(study, chosen, mode)
                parts += [f'### {title}', *_blocks(study, chosen, mode, beside), *_ranks(study, chosen, mode, beside)]
        parts += [*_both(done), *_failures(results)]
    names = ', '.join(study.name for study, _ in studies)
    page.write_text('\n\n'.join([f'# Results of {names}', HOW_TO_READ, *_claims_table(claims), *parts]) + '\n',
                    encoding='utf-8')
    return page


def _results(study: Study, folder: Path) -> list[Result]:
    """The runs of a study in the order of its file, whichever ended first."""
    results = read_table(folder)
    done = [result for result in results if result.state == FINISHED]
    if not done:
        raise StudyError(f'study folder {folder} has no finished run to report')
    for result in done:
        for field, given, found, fits in (
                ('factors', study.factors, ', '.join(result.levels), list(study.factors) == list(result.levels)),
                ('metrics', study.metrics, result.metric, result.metric in study.metrics)):
            if not fits:
                raise StudyError(f'{field} ({", ".join(given)}) of study {study.name} do not fit its run '
                                 f'{result.name}, which has {found}; give the file that it was run with')
    places = [{level.name: place for place, level in enumerate(levels)} for levels in study.factors.values()]
    return sorted(results, key=lambda result: (
        [place.get(name, len(place)) for place, name in zip(places, result.levels.values())], result.mode, result.seed))


def _head(study: Study, results: Sequence[Result]) -> list[str]:
    states = ', '.join(f'{number} {state}' for state, number in Counter(item.state for item in results).items())
    done = [item for item in results if item.state == FINISHED]
    machines: dict[str, set[str]] = defaultdict(set)
    for item in done:
        name = f'{item.machine["processor"]}, GPU {item.machine["gpu"]}, PyTorch {item.machine["torch"]}'
        machines[name].add(item.git_commit[:10] + item.git_commit[40:] or 'unknown')
    ran_on = '; '.join(f'{name}, commit {" or ".join(sorted(commits))}' for name, commits in sorted(machines.items()))
    trials = [item for item in results if item.mode == TRIAL]
    lines = [f'## {study.name}', study.description,
             f'{counted(len(results), "run")}: {states}; '
             f'{sum(item.wall_seconds for item in results) / 3600:.2f} hours of runs, '
             f'{sum(item.cpu_seconds for item in results) / 3600:.2f} of CPU, '
             f'{sum(item.gpu_seconds for item in results) / 3600:.2f} of GPU. Ran on: {ran_on}.',
             f'{len(trials)} trials of {", ".join(study.tune.ranges)} chose the best of each cell.' if trials else '']
    return [line for line in lines if line]


def _blocks(study: Study, done: Sequence[Result], mode: str, beside: Path) -> list[str]:
    """A table and a figure for every combination of the factors behind the first one."""
    blocks: dict[tuple, list[Result]] = defaultdict(list)
    for result in done:
        blocks[(result.metric, *list(result.levels.items())[1:])].append(result)
    parts = []
    for number, ((metric, *levels), results) in enumerate(blocks.items()):
        name = ', '.join(f'{factor} {level}' for factor, level in levels) or study.name
        figure = beside / f'{study.name}_costs_{mode}_{number}.png'
        devices = sorted({_device(run) for run in results})
        parts += [f'#### {name}: {metric}', _table(study, results, figure, timed=len(devices) == 1)]
        if len(devices) > 1:
            parts.append(f'Times are left out: these runs differ in processor or threads ({"; ".join(devices)}).')
        parts.append(_picture(name, figure))
    return parts


def _table(study: Study, results: Sequence[Result], figure: Path, timed: bool) -> str:
    """A row for each level of the first factor, best mean first, each compared with the level that is listed first."""
    factor = next(iter(study.factors), '')
    members: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        members[result.levels.get(factor, study.name)].append(result)
    metric = results[0].metric
    way = sign(study, metric)
    intervals = {name: interval([run.value for run in runs]) for name, runs in members.items()}
    order = sorted(members, key=lambda name: way * intervals[name].mean, reverse=True)
    values = seed_means(study, results, factor) if factor else {}
    reference = next((level.name for level in study.factors.get(factor, ()) if level.name in members), order[0])
    others = [name for name in order if name != reference]
    pairs = dict(zip(others, holm([compare(name, reference, values) for name in others])))
    costs = {MACS: [runs[0].flops / 1e6 for runs in members.values()]}
    if timed:
        costs['CPU or GPU seconds per run'] = [mean(map(_seconds, runs)) for runs in members.values()]
    draw_costs(list(members), list(intervals.values()), costs, metric, way > 0, figure)
    front = dict(zip(members, pareto(costs[MACS], [way * item.mean for item in intervals.values()])))
    rows = [[name, str(intervals[name].number), _number(intervals[name]), *_compared(pairs.get(name), way),
             *_costs(members[name], timed), 'yes' if front[name] else ''] for name in order]
    header = [factor, 'seeds', metric, f'to {reference}', 'p', 'verdict', 'params (M)', 'MACs (M)',
              *(TIMES if timed else []), 'MiB', 'tuned', 'Pareto']
    return align(rows, header, {0, 5}, markdown=True)


def _compared(pair: Comparison | None, way: int) -> list[str]:
    if pair is None:
        return ['', '', 'the reference']
    return [_number(pair.difference, way), _p_value(pair.p_holm), pair.verdict]


def _costs(runs: Sequence[Result], timed: bool) -> list[str]:
    return [f'{runs[0].params / 1e6:.3f}', f'{runs[0].flops / 1e6:.1f}', *(_times(runs) if timed else []),
            f'{mean(memory) / 2**20:.0f}' if (memory := [run.peak_memory for run in runs if run.peak_memory]) else '',
            ', '.join(f'{value:g}' for value in (runs[0].tuned or {}).values())]


def _times(runs: Sequence[Result]) -> list[str]:
    size = next(iter(runs[0].throughput))
    speeds = [run.throughput[size] for run in runs if size in run.throughput]
    return [f'{mean(map(_seconds, runs)):.0f}', size, f'{mean(speeds):.0f}']


def _device(run: Result) -> str:
    """What a run's times are those of."""
    machine = run.machine
    return machine['gpu'] if run.gpu_seconds else f'{machine["processor"]}, {counted(machine["threads"], "thread")}'


def _seconds(run: Result) -> float:
    """Of the GPU where there is one, else of the CPU, which other processes do not lengthen as they do wall time."""
    return run.gpu_seconds or run.cpu_seconds


def _number(item: Interval, way: int = 1) -> str:
    low, high = sorted((way * item.low, way * item.high))
    return f'{way * item.mean:.4g}' + (f' [{low:.4g}, {high:.4g}]' if item.number > 1 else '')


def _p_value(value: float) -> str:
    return '' if isnan(value) else f'{value:.3f}' if value >= .0005 else '<0.001'


def _ranks(study: Study, done: Sequence[Result], mode: str, beside: Path) -> list[str]:
    if not study.factors:
        return []
    factor = next(iter(study.factors))
    table = pd.DataFrame([dict(
        level=result.levels[factor], value=signed(study, result),
        block=str([result.metric, *list(result.levels.values())[1:]])) for result in done])
    ranks = rank(table.pivot_table(index='block', columns='level', values='value'))
    if ranks is None:
        return []
    figure = beside / f'{study.name}_ranks_{mode}.png'
    draw_ranks(ranks, figure)
    return ['#### Ranks over tasks', f"Friedman's test that all are alike: p = {ranks.friedman:.3g}. A bar joins what "
            "Nemenyi's test does not separate.", _picture('Average ranks', figure)]


def _picture(text: str, figure: Path) -> str:
    return f'![{text}]({figure.parent.name}/{figure.name})'


def _claims(study: Study, done: Sequence[Result], mode: str) -> list[list[str]]:
    """A row for every pair of the claims of a study, the claim itself in the first of them."""
    rows = []
    for verdict in judge(study, done, mode):
        where = ', '.join(f'{factor} {"/".join(levels)}' for factor, levels in verdict.claim.where.items())
        first = [verdict.claim.text, f'{study.name}: {where or "all"}' + (', tuned' if mode == BEST else ''),
                 verdict.claim.source, f'**{verdict.text}**']
        for pair in verdict.pairs:
            rows.append([*first, f'{pair.first} - {pair.second}', _number(pair.difference), f'{pair.effect:.2g}',
                         _p_value(pair.p_holm), _p_value(pair.p_wilcoxon), str(pair.difference.number)])
            first = [''] * len(first)
    return rows


def _claims_table(rows: Sequence[Sequence[str]]) -> list[str]:
    header = ['claim', 'where', 'source', 'verdict', 'pair', 'difference, larger is better', 'd', 'p (Holm)',
              'p (Wilcoxon)', 'seeds']
    verdicts = Counter(row[3].strip('*') for row in rows if row[0])
    said = ', '.join(f'{number} {verdict}' for verdict, number in verdicts.most_common())
    return ['## Claims', f'{counted(verdicts.total(), "claim")}: {said}.',
            align(rows, header, set(range(5)), markdown=True)] if rows else []


def _both(done: Sequence[Result]) -> list[str]:
    """Each cell with the recipe of all beside the same cell at its best; nothing where no rate was tuned."""
    cells: dict[tuple, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in done:
        cells[(*result.levels.values(), result.metric)][result.mode].append(result)
    rows = [[*map(str, cell), *(_number(interval([run.value for run in modes[mode]])) for mode in TITLES),
             ', '.join(f'{path.rpartition(".")[2]} {value:g}' for path, value in modes[BEST][0].tuned.items())]
            for cell, modes in cells.items() if modes.keys() >= TITLES.keys()]
    header = [*done[0].levels, 'metric', *(title.lower() for title in TITLES.values()), 'tuned']
    return ['### Both side by side', align(rows, header, set(range(len(header) - 3)), markdown=True)] if rows else []


def _failures(results: Sequence[Result]) -> list[str]:
    failed = [[result.name, result.error.replace('|', '/')] for result in results if result.state == FAILED]
    return ['### Failed runs', align(failed, ['run', 'error'], {0, 1}, markdown=True)] if failed else []


def _write_csv(results: Sequence[Result], path: Path) -> None:
    """Everything that is known of the runs, mappings spread over columns."""
    rows = [{column: value for key, value in asdict(result).items() for column, value in (
        [(f'{key}.{name}', item) for name, item in value.items()] if isinstance(value, dict) else [(key, value)])}
        for result in results]
    with path.open('w', newline='', encoding='utf-8') as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(column for row in rows for column in row)))
        writer.writeheader()
        writer.writerows(rows)
