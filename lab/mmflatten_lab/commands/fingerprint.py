"""Measure which synthetic tasks one attention can learn, compared with the stored results of all
others.

    mmflatten fingerprint FocusedLinearAttention:kernel_size=None
    mmflatten fingerprint my_attention.MyAttention:power=2

Small models learn eleven tasks from generated grids, with two seeds each. The same command resumes
after any interruption. See lab/docs/fingerprint.md.
"""

import argparse
from pathlib import Path

from mmflatten.cli.common import command, positive
from mmflatten.console import print_progress


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'mixer',
        metavar='MIXER',
        help=(
            'name of `mmflatten benchmark --operators`, class with arguments, or the path by which'
            ' Python imports your class: my_attention.MyAttention:power=2'
        ),
    )
    parser.add_argument('--name', help='name in the page (default: MIXER)')
    parser.add_argument(
        '--out',
        type=Path,
        metavar='DIR',
        help='folder of runs, page and picture (default: work_dirs/fingerprints/NAME)',
    )
    parser.add_argument(
        '--seeds', type=positive, default=2, metavar='N', help='trainings of each task (default: 2)'
    )
    parser.add_argument(
        '--workers',
        type=positive,
        metavar='N',
        help='trainings at once, which share the GPUs (default: one for each core)',
    )


def file_name(name: str) -> str:
    """Replace the characters of a name that do not belong in a file's name by '_'."""
    letters = [letter if letter.isalnum() or letter in '-_.' else '_' for letter in name]
    return ''.join(letters)


@command('fingerprint', __doc__, options)
def main(args: argparse.Namespace) -> None:
    name = args.name or args.mixer
    out = args.out or Path('work_dirs', 'fingerprints', file_name(name))
    print_progress(f'Fingerprint of {name} in {out}')
    # Imported here, so that a missing library ends with one line that says how to install it.
    from mmflatten_lab.studies import fingerprint

    study = fingerprint.task_suite(args.mixer, name, args.seeds)
    out.mkdir(parents=True, exist_ok=True)
    runs = fingerprint.run_tasks(study, out, args.workers, print_progress)
    page = out / 'fingerprint.md'
    accuracies = fingerprint.accuracies(runs)
    chance = fingerprint.chance_levels(study)
    fingerprint.write_page(name, args.mixer, accuracies, chance, page)
    print(page)
