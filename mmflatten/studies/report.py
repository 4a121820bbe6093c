"""Report of studies: a Markdown page with tables, figures and claims, and a CSV file of all runs."""
from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from mmflatten.studies.blocks import TITLES, blocks_of, claim_rows, ranks_of, tuned_table
from mmflatten.studies.figures import draw_costs, draw_ranks
from mmflatten.studies.folder import FAILED, FINISHED, Result, StudyFolder
from mmflatten.studies.grid import TRIAL
from mmflatten.studies.status import collect_results
from mmflatten.studies.study import Study, StudyError, counted
from mmflatten.text_table import align

MARKER = 'Written by `mmflatten study'
NOTE = f"""{MARKER} ... --report`, which replaces this page. docs/studies.md explains how the figures are computed.
Intervals are 95 % confidence intervals over seeds (Student's t). Differences are paired by seed, with p-values from
t-tests and Holm's correction over a table or over the claims of a study. A difference that is not significant is
"inside the noise", neither better nor worse."""
CLAIM_HEADER = ['claim', 'where', 'source', 'verdict', 'pair', 'difference, larger is better', 'd', 'p (Holm)',
                'p (Wilcoxon)', 'seeds']


def write_report(studies: Sequence[tuple[Study, Path]], page: Path) -> Path:
    """Write one page on studies; the folder beside it with its name takes the figures and a table of all runs.

    Args:
        studies: each with the folder of its results.
        page: a Markdown file; the figures of `page.md` are `page/*.png`.

    Raises:
        StudyError: a study has no finished runs, its metrics do not fit its runs, or the page was edited by hand.
    """
    if page.exists() and not page.read_text(encoding='utf-8').partition('\n\n')[2].startswith(MARKER):
        raise StudyError(f'--report: expected a new page or an earlier report, got {page}, which has other text above '
                         'the report. Name another page.')
    collected = [(study, _finished(study, path)) for study, path in studies]
    beside = page.with_suffix('')
    beside.mkdir(parents=True, exist_ok=True)
    claims, parts = [], []
    for study, results in collected:
        done = [result for result in results if result.state == FINISHED]
        _write_csv(results, beside / f'{study.name}.csv')
        parts += _head(study, results)
        for mode, title in TITLES.items():
            chosen = [result for result in done if result.mode == mode]
            if chosen:
                claims += claim_rows(study, chosen, mode)
                parts += [f'### {title}', *_sections(study, chosen, mode, beside)]
        tuned = tuned_table(study, done)
        parts += ['### Both side by side', tuned] if tuned else []
        failed = [[result.name, result.error.replace('|', '/')] for result in results if result.state == FAILED]
        parts += ['### Failed runs', align(failed, ['run', 'error'], {0, 1}, markdown=True)] if failed else []
    if claims:
        verdicts = Counter(row[3].strip('*') for row in claims if row[0])
        counts = ', '.join(f'{number} {verdict}' for verdict, number in verdicts.most_common())
        parts = ['## Claims', f'{counted(verdicts.total(), "claim")}: {counts}.',
                 align(claims, CLAIM_HEADER, set(range(5)), markdown=True), *parts]
    title = f'# Results of {", ".join(study.name for study, _ in studies)}'
    page.write_text('\n\n'.join([title, NOTE, *parts]) + '\n', encoding='utf-8')
    return page


def _finished(study: Study, path: Path) -> list[Result]:
    """Read the results of a study that has finished runs."""
    results = collect_results(study, StudyFolder(path))
    done = [result for result in results if result.state == FINISHED]
    if not done:
        raise StudyError(f'{path}: expected finished runs of {study.name}, got none. Run the study first, or give the '
                         f'file that the runs were started with (factors: {", ".join(study.factors)}).')
    for result in done:
        if result.metric not in study.metrics:
            raise StudyError(f'metrics: expected {result.metric}, by which {result.name} was judged, got '
                             f'{", ".join(study.metrics)}. Give the file that the runs were started with.')
    return results


def _head(study: Study, results: Sequence[Result]) -> list[str]:
    states = ', '.join(f'{number} {state}' for state, number in Counter(item.state for item in results).items())
    machines: dict[str, set[str]] = defaultdict(set)
    for item in results:
        if item.state == FINISHED:
            name = f'{item.machine["processor"]}, GPU {item.machine["gpu"]}, PyTorch {item.machine["torch"]}'
            machines[name].add(item.git_commit[:10] + item.git_commit[40:] or 'unknown')  # with -dirty
    ran_on = '; '.join(f'{name}, commit {" or ".join(sorted(commits))}' for name, commits in sorted(machines.items()))
    hours = [sum(getattr(item, f'{kind}_seconds') for item in results) / 3600 for kind in ('wall', 'cpu', 'gpu')]
    lines = [f'## {study.name}', study.description,
             f'{counted(len(results), "run")}: {states}; {hours[0]:.2f} hours of runs, {hours[1]:.2f} of CPU, '
             f'{hours[2]:.2f} of GPU. Ran on: {ran_on}.']
    if study.tune:
        trials = sum(item.mode == TRIAL for item in results)
        lines.append(f'{trials} trials of {", ".join(study.tune.ranges)} chose the best settings of each cell.')
    return [line for line in lines if line]


def _sections(study: Study, results: Sequence[Result], mode: str, beside: Path) -> list[str]:
    """Tables and figures for the finished runs of one mode."""
    parts = []
    for number, block in enumerate(blocks_of(study, results)):
        figure = beside / f'{study.name}_costs_{mode}_{number}.png'
        draw_costs(list(block.members), list(block.intervals.values()), block.costs(), block.metric, block.sign > 0,
                   figure)
        parts += [f'#### {block.name}: {block.metric}', block.table()]
        if len(block.devices) > 1:
            parts.append('Times are omitted because the runs used different processors or thread counts '
                         f'({"; ".join(block.devices)}).')
        parts.append(f'![{block.name}]({beside.name}/{figure.name})')
    ranks = ranks_of(study, results)
    if ranks is not None:
        figure = beside / f'{study.name}_ranks_{mode}.png'
        draw_ranks(ranks, figure)
        parts += ['#### Ranks over tasks', f"Friedman's test that all are alike: p = {ranks.friedman:.3g}. A bar joins "
                  "levels that Nemenyi's test does not separate.", f'![Average ranks]({beside.name}/{figure.name})']
    return parts


def _write_csv(results: Sequence[Result], path: Path) -> None:
    """Write one row per run, with a column for every item of a mapping."""
    rows: list[dict[str, Any]] = []
    for result in results:
        rows.append({})
        for key, value in asdict(result).items():
            items = {f'{key}.{name}': item for name, item in value.items()} if isinstance(value, dict) else {key: value}
            rows[-1].update(items)
    pd.DataFrame(rows, dtype=object).to_csv(path, index=False)
