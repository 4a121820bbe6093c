"""Run a study, a grid of trainings from one file, and report on its results.

    mmflatten study lab/studies/attentions.yaml --dry-run
    mmflatten study lab/studies/attentions.yaml --workers 2
    mmflatten study lab/studies/attentions.yaml lab/studies/ablations.yaml --report page.md

The same command resumes after any interruption. See lab/docs/studies.md.
"""

import argparse
from pathlib import Path
from typing import Any

from mmflatten.cli.common import command, positive
from mmflatten.config import ConfigOptions
from mmflatten.console import print_progress, prints_to_stderr


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'study', nargs='+', metavar='STUDY.yaml', help='study file; several run one after another'
    )
    parser.add_argument(
        '--size',
        default='full',
        metavar='NAME',
        help='one of the sizes in the file (default: full)',
    )
    parser.add_argument(
        '--set',
        nargs='+',
        action=ConfigOptions,
        metavar='FIELD=VALUE',
        help=(
            'fields of the study file, or levels that remain: budget.epochs=2, '
            'factors.attention=softmax,focused'
        ),
    )
    parser.add_argument(
        '--work-dir',
        type=Path,
        metavar='DIR',
        help='folder of the results (default: work_dirs/studies/<name of the study>)',
    )
    parser.add_argument(
        '--from',
        dest='published',
        type=Path,
        metavar='DIR',
        help=(
            'folder with the tables NAME.csv of an earlier report: report on them, or run only what'
            ' they lack'
        ),
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        '--dry-run',
        action='store_true',
        help='print the grid with parameters, FLOPs, steps and disk',
    )
    action.add_argument('--status', action='store_true', help='print the progress of the study')
    action.add_argument(
        '--report',
        type=_page,
        nargs='?',
        const=Path('work_dirs', 'studies', 'report.md'),
        metavar='PAGE.md',
        help=(
            'write a report on the results so far, and a folder beside it with its '
            'figures and a CSV file of all runs (default: work_dirs/studies/report.md)'
        ),
    )
    parser.add_argument(
        '--workers',
        type=positive,
        metavar='N',
        help='runs at once on this machine (default: one for each GPU, else for each core)',
    )
    parser.add_argument(
        '--slurm',
        metavar='KEY=VALUE,...',
        help='run as Slurm jobs, with options of sbatch: partition=gpu,time=60,gpus=1,cpus=2',
    )
    parser.add_argument(
        '--changed',
        choices=['keep', 'rerun'],
        help='keep or repeat runs that were started with another config or other settings',
    )
    parser.add_argument('--retry-failed', action='store_true', help='repeat failed runs')


@command('study', __doc__, options)
def main(args: argparse.Namespace) -> None:
    if args.slurm and args.workers:
        raise ValueError(
            f'--workers: only for runs on this machine, got {args.workers} with --slurm. Remove it.'
        )
    # Imported here, so that a missing library ends with one line that says how to install it.
    from mmflatten_lab.studies.folder import StudyFolder, status_table
    from mmflatten_lab.studies.study_fields import StudyError
    from mmflatten_lab.studies.study_file import read_study

    studies = [read_study(path, args.size, args.set or {}) for path in args.study]
    if args.work_dir and len(studies) > 1:
        raise ValueError(
            f'--work-dir: expected one study, got {len(studies)}. Run them one by one.'
        )
    folders = [
        StudyFolder(args.work_dir or Path('work_dirs', 'studies', study.name)) for study in studies
    ]
    if args.report:
        from mmflatten_lab.studies.report import write_report

        print(write_report(list(zip(studies, folders)), args.report, args.published))
        return
    failed = []
    for study, folder in zip(studies, folders):
        try:
            if args.status:
                print(status_table(study, folder))
            elif args.dry_run:
                print(_dry_run(study))
            else:
                with folder.locked():
                    _run(study, folder, args)
        except StudyError as error:
            if len(studies) == 1:
                raise
            print_progress(f'{study.name}: {error}')  # the other studies do not depend on this one
            failed.append(study.name)
    if failed:
        raise StudyError(f'{len(failed)} of {len(studies)} studies failed: {", ".join(failed)}')


def _page(text: str) -> Path:
    if not text.endswith('.md'):  # a study file after --report would be overwritten
        raise argparse.ArgumentTypeError(
            f'expected a page that ends in .md, got {text}. Put study files before it.'
        )
    return Path(text)


def _dry_run(study: Any) -> str:
    from mmflatten_lab.studies.costs import check_runs, cost_table
    from mmflatten_lab.studies.level_differences import level_tables
    from mmflatten_lab.studies.runs import expand

    with prints_to_stderr():
        runs = expand(study)
        check_runs(study, runs)
        return '\n\n'.join([cost_table(study, runs), *level_tables(study, runs)])


def _run(study: Any, folder: Any, args: argparse.Namespace) -> None:
    from mmflatten_lab.studies.csv_tables import read_csv
    from mmflatten_lab.studies.driver import Driver
    from mmflatten_lab.studies.runs import FAILED
    from mmflatten_lab.studies.study_fields import StudyError, pluralize

    published = read_csv(args.published / f'{study.name}.csv') if args.published else {}
    driver = Driver(study, folder, _executor(folder, args), print_progress, published)
    runs = driver.run(args.changed, args.retry_failed)
    failed = [run for run in runs if run.state == FAILED]
    print(f'{len(runs) - len(failed)} of {pluralize(len(runs), "run")} ended well: {folder.path}')
    if failed:
        raise StudyError(
            f'{pluralize(len(failed), "run")} of {study.name} failed ({failed[0].name}: '
            f'{failed[0].error}). --status lists all of them, --retry-failed repeats them.'
        )


def _executor(folder: Any, args: argparse.Namespace) -> Any:
    from mmflatten_lab.studies.executors import LocalExecutor, SlurmExecutor

    return (
        SlurmExecutor(folder.path / 'slurm', args.slurm)
        if args.slurm
        else LocalExecutor(args.workers)
    )
