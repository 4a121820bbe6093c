"""Report on studies: a Markdown page with tables, figures and claims, and a CSV file of all
runs.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from mmflatten.text import align
from mmflatten.untrusted.files import read_text
from mmflatten_lab.studies.claims import claim_rows
from mmflatten_lab.studies.comparison_tables import comparison_tables, draw_costs
from mmflatten_lab.studies.csv_tables import read_csv, write_csv
from mmflatten_lab.studies.folder import StudyFolder, collect_runs
from mmflatten_lab.studies.level_differences import level_tables
from mmflatten_lab.studies.runs import BASELINE, FAILED, GRID, StudyRun, finished_runs
from mmflatten_lab.studies.study import Study
from mmflatten_lab.studies.study_fields import StudyError, pluralize

MARKER = 'Written by `mmflatten study'
NOTE = f"""{MARKER} ... --report`, which replaces this page.
lab/docs/studies.md explains how the figures are computed. Each table has one linear model of level
and seed; its differences to the reference have simultaneous 95 % intervals (Dunnett). A level is
better, worse, equivalent within the margin of the study file, or undecided. Claims share one error
rate of 5 % over all their pairs and interim analyses (Bonferroni)."""
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
    # Read everything first, so that an error writes no files.
    collected = [(study, _collect(study, folder, published)) for study, folder in studies]
    beside = page.with_suffix('')
    beside.mkdir(parents=True, exist_ok=True)
    claims: list[list[str]] = []
    parts: list[str] = []
    for study, runs in collected:
        write_csv(runs, beside / f'{study.name}.csv')
        parts += [*_head(study, runs), *_results(study, runs, beside)]
        claims += claim_rows(study, runs)
    if claims:
        parts = _claims(claims) + parts
    title = f'# Results of {", ".join(study.name for study, _ in studies)}'
    page.write_text('\n\n'.join([title, NOTE, *parts]) + '\n', encoding='utf-8')
    return page


def _claims(rows: Sequence[Sequence[str]]) -> list[str]:
    """Number of claims with each verdict, and the table of `claim_rows`."""
    # Only the first row of a claim has its text and verdict.
    verdicts = Counter(verdict.strip('*') for text, _, _, verdict, *_ in rows if text)
    counts = ', '.join(f'{number} {verdict}' for verdict, number in verdicts.most_common())
    return [
        '## Claims',
        f'{pluralize(verdicts.total(), "claim")}: {counts}.',
        align(rows, CLAIM_HEADER, set(range(5)), markdown=True),
    ]


def _collect(study: Study, folder: StudyFolder, published: Path | None) -> list[StudyRun]:
    """Read the results of a study, which must have finished runs."""
    stored = read_csv(published / f'{study.name}.csv') if published else {}
    runs = collect_runs(study, folder, stored)
    finished = finished_runs(runs)
    if not finished:
        raise StudyError(
            f'{folder.path}: expected finished runs of {study.name}, got none. Run the study first,'
            ' or specify the file that the runs were started with'
            f' (factors: {", ".join(study.factors)}).'
        )
    for run in finished:
        if run.metric not in study.metrics:
            raise StudyError(
                f'metrics: expected {run.metric}, by which {run.name} was judged, got '
                f'{", ".join(study.metrics)}. Specify the file that the runs were started with.'
            )
    return runs


def _head(study: Study, runs: Sequence[StudyRun]) -> list[str]:
    """Title and description of a study, with the states, times and machines of its runs."""
    states = Counter(run.state for run in runs)
    counts = ', '.join(f'{number} {state}' for state, number in states.items())
    wall = sum(run.wall_seconds for run in runs) / 3600
    cpu = sum(run.cpu_seconds for run in runs) / 3600
    gpu = sum(run.gpu_seconds for run in runs) / 3600
    costs = (
        f'{pluralize(len(runs), "run")}: {counts}; {wall:.2f} hours of runs, {cpu:.2f} of CPU,'
        f' {gpu:.2f} of GPU. Ran on: {_machines(finished_runs(runs))}.'
    )
    lines = [f'## {study.name}', study.description, costs]
    return [line for line in lines if line]


def _machines(runs: Sequence[StudyRun]) -> str:
    """List the machines of runs, each with the commits of the package."""
    machines: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        parts = run.machine
        name = f'{parts["processor"]}, GPU {parts["gpu"]}, PyTorch {parts["torch"]}'
        # Ten digits of the hash, and the `-dirty` after it.
        commit = run.git_commit[:10] + run.git_commit[40:]
        machines[name].add(commit or 'unknown')
    ran_on = []
    for name, commits in sorted(machines.items()):
        ran_on.append(f'{name}, commit {" or ".join(sorted(commits))}')
    return '; '.join(ran_on)


def _results(study: Study, runs: Sequence[StudyRun], beside: Path) -> list[str]:
    """Tables and figures of a study."""
    parts = []
    tables = level_tables(study, runs, markdown=True)
    if tables:
        parts += ['### Other differences between the levels', *tables]
    finished = finished_runs(runs)
    baselines = [run for run in finished if run.mode == BASELINE]
    grid = [run for run in finished if run.mode == GRID]
    for number, table in enumerate(comparison_tables(study, grid, baselines)):
        figure = beside / f'{study.name}_costs_{number}.png'
        draw_costs(table, figure)
        parts += [f'### {table.name}: {table.metric}', table.text(), *table.notes()]
        parts.append(f'![{table.name}]({beside.name}/{figure.name})')
    # A vertical bar ends a cell of a Markdown table.
    failed = [[run.name, run.error.replace('|', '/')] for run in runs if run.state == FAILED]
    if failed:
        parts += ['### Failed runs', align(failed, ['run', 'error'], {0, 1}, markdown=True)]
    return parts
