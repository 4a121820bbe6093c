"""Report on studies: a Markdown page with tables, figures and claims, and a CSV file of all
runs.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from mmflatten.files import read_text
from mmflatten.text import align
from mmflatten_lab.studies.claims import claim_rows
from mmflatten_lab.studies.comparison_tables import comparison_tables, draw_costs
from mmflatten_lab.studies.csv_tables import read_csv, write_csv
from mmflatten_lab.studies.folder import StudyFolder, collect_runs
from mmflatten_lab.studies.level_differences import level_tables
from mmflatten_lab.studies.runs import BASELINE, FAILED, FINISHED, GRID, StudyRun
from mmflatten_lab.studies.study import Study
from mmflatten_lab.studies.study_fields import StudyError, pluralize

MARKER = 'Written by `mmflatten study'
NOTE = f"""{MARKER} ... --report`, which replaces this page. lab/docs/studies.md explains how the figures are computed.
Each table has one linear model of level and seed; its differences to the reference have simultaneous 95 % intervals
(Dunnett). A level is better, worse, equivalent within the margin of the study file, or undecided. Claims share one
error rate of 5 % over all their pairs and interim analyses (Bonferroni)."""
CLAIM_HEADER = [
    'claim',
    'where',
    'source',
    'verdict',
    'pair',
    'difference, larger is better',
    'p',
    'seeds',
]


def write_report(
    studies: Sequence[tuple[Study, StudyFolder]], page: Path, published: Path | None = None
) -> Path:
    """Write one page on studies. The folder of the same name holds the figures and a table of all
    runs.

    Args:
        studies: studies with the folders of their results.
        page: Markdown file. The figures of `page.md` are `page/*.png`.
        published: folder with the CSV tables of an earlier report, for runs that are not in the
            folders.

    Raises:
        StudyError: a study has no finished runs, its metrics do not fit its runs, or the page was
            edited by hand.
    """
    if page.exists() and not read_text(page).partition('\n\n')[2].startswith(MARKER):
        raise StudyError(
            f'--report: expected a new page or an earlier report, got {page}, which has other text'
            ' above the report. Name another page.'
        )
    collected = [(study, _collect(study, folder, published)) for study, folder in studies]
    beside = page.with_suffix('')
    beside.mkdir(parents=True, exist_ok=True)
    claims, parts = [], []
    for study, runs in collected:
        write_csv(runs, beside / f'{study.name}.csv')
        parts += [*_head(study, runs), *_results(study, runs, beside)]
        claims += claim_rows(study, runs)
    if claims:
        verdicts = Counter(row[3].strip('*') for row in claims if row[0])
        counts = ', '.join(f'{number} {verdict}' for verdict, number in verdicts.most_common())
        parts = [
            '## Claims',
            f'{pluralize(verdicts.total(), "claim")}: {counts}.',
            align(claims, CLAIM_HEADER, set(range(5)), markdown=True),
            *parts,
        ]
    title = f'# Results of {", ".join(study.name for study, _ in studies)}'
    page.write_text('\n\n'.join([title, NOTE, *parts]) + '\n', encoding='utf-8')
    return page


def _collect(study: Study, folder: StudyFolder, published: Path | None) -> list[StudyRun]:
    """Read the results of a study, which must have finished runs."""
    runs = collect_runs(
        study, folder, read_csv(published / f'{study.name}.csv') if published else {}
    )
    finished = [run for run in runs if run.state == FINISHED]
    if not finished:
        raise StudyError(
            f'{folder.path}: expected finished runs of {study.name}, got none. Run the study first,'
            ' or give the file that the runs were started with (factors:'
            f' {", ".join(study.factors)}).'
        )
    for run in finished:
        if run.metric not in study.metrics:
            raise StudyError(
                f'metrics: expected {run.metric}, by which {run.name} was judged, got '
                f'{", ".join(study.metrics)}. Give the file that the runs were started with.'
            )
    return runs


def _head(study: Study, runs: Sequence[StudyRun]) -> list[str]:
    states = ', '.join(
        f'{number} {state}' for state, number in Counter(run.state for run in runs).items()
    )
    machines: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        if run.state == FINISHED:
            name = (
                f'{run.machine["processor"]}, GPU {run.machine["gpu"]}, PyTorch'
                f' {run.machine["torch"]}'
            )
            # with -dirty
            machines[name].add(run.git_commit[:10] + run.git_commit[40:] or 'unknown')
    ran_on = '; '.join(
        f'{name}, commit {" or ".join(sorted(commits))}'
        for name, commits in sorted(machines.items())
    )
    hours = [
        sum(getattr(run, f'{kind}_seconds') for run in runs) / 3600
        for kind in ('wall', 'cpu', 'gpu')
    ]
    lines = [
        f'## {study.name}',
        study.description,
        (
            f'{pluralize(len(runs), "run")}: {states}; {hours[0]:.2f} hours of runs, {hours[1]:.2f}'
            f' of CPU, {hours[2]:.2f} of GPU. Ran on: {ran_on}.'
        ),
    ]
    return [line for line in lines if line]


def _results(study: Study, runs: Sequence[StudyRun], beside: Path) -> list[str]:
    """Tables and figures of a study."""
    parts = []
    tables = level_tables(study, runs, markdown=True)
    parts += ['### Other differences between the levels', *tables] if tables else []
    finished = [run for run in runs if run.state == FINISHED]
    baselines = [run for run in finished if run.mode == BASELINE]
    grid = [run for run in finished if run.mode == GRID]
    for number, table in enumerate(comparison_tables(study, grid, baselines)):
        figure = beside / f'{study.name}_costs_{number}.png'
        draw_costs(table, figure)
        parts += [f'### {table.name}: {table.metric}', table.text(), *table.notes()]
        parts.append(f'![{table.name}]({beside.name}/{figure.name})')
    failed = [[run.name, run.error.replace('|', '/')] for run in runs if run.state == FAILED]
    parts += (
        ['### Failed runs', align(failed, ['run', 'error'], {0, 1}, markdown=True)]
        if failed
        else []
    )
    return parts
