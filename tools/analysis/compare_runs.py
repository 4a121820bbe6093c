"""Print the last validation and the time per iteration of several trainings side by side.

python tools/analysis/compare_runs.py work_dirs/psmnet-tiny work_dirs/psmnet-tiny-fa
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line
from mmflatten.results.curves import NOT_METRICS, is_training, name_runs, read_scalars
from mmflatten.results.progress import trained_iterations
from mmflatten.text import align


def render_comparison(work_dirs: Sequence[str | Path]) -> str:
    """Format the last validation of trainings and the number and median time of their iterations.

    There is a column for each training, a row for each metric that all have, and the difference of
    two trainings.

    Raises:
        FileNotFoundError: a work dir has no log.
        ValueError: a log has no validation, or a work dir is listed twice.
    """
    runs = {}
    for name, work_dir in name_runs(work_dirs).items():
        runs[name] = _summary(name, work_dir)
    header = ['', *runs]
    if len(runs) == 2:
        header.append('difference')
    rows = []
    for key in _common_keys(list(runs.values())):
        values = [run[key] for run in runs.values()]
        cells = [key, *map(_format, values)]
        if len(values) == 2:
            cells.append(f'{values[1] - values[0]:+.4g}')
        rows.append(cells)
    return align(rows, header, {0})


def _summary(name: str, work_dir: Path) -> dict[str, float]:
    """Return the metrics of the last validation, with the length and speed of the training."""
    records = read_scalars(work_dir)
    seconds = []
    validations = []
    for record in records:
        if is_training(record):
            seconds.append(record['time'])
        elif record.keys() - NOT_METRICS:
            validations.append(record)
    if not validations:
        raise ValueError(
            f'work dir: the log of {name} has no validation. Only validated runs can be compared.'
        )
    last = validations[-1]
    metrics = {key: value for key, value in last.items() if key not in NOT_METRICS}
    return {
        **metrics,
        'validated after': last['step'],
        'iterations': trained_iterations(work_dir, records),
        's per iteration': median(seconds),
    }


def _common_keys(runs: Sequence[dict[str, float]]) -> list[str]:
    """Return the keys that all runs have, in the order of the first."""
    first, *others = runs
    common = set(first).intersection(*others)
    return [key for key in first if key in common]


def _format(value: float) -> str:
    return f'{value:.4g}' if isinstance(value, float) else str(value)


@command_line
def main(argv: Sequence[str]) -> None:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('work_dirs', nargs='+', metavar='WORK_DIR', help='work dirs of trainings')
    args = parser.parse_args(argv)
    print(render_comparison(args.work_dirs))


if __name__ == '__main__':
    sys.exit(main())
