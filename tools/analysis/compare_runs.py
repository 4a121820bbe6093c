"""Print the last validation and the time per iteration of several trainings side by side.

python tools/analysis/compare_runs.py work_dirs/psmnet-tiny_digits-stereo work_dirs/psmnet-tiny-fa_digits-stereo
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
        records = read_scalars(work_dir)
        training = [record for record in records if is_training(record)]
        validations = [
            record for record in records if record.keys() - NOT_METRICS and not is_training(record)
        ]
        if not validations:
            raise ValueError(
                f'work dir: the log of {name} has no validation. Only validated runs can be'
                ' compared.'
            )
        runs[name] = {
            **{key: value for key, value in validations[-1].items() if key not in NOT_METRICS},
            'validated after': validations[-1]['step'],
            'iterations': trained_iterations(work_dir, records),
            's per iteration': median(record['time'] for record in training),
        }
    first, *others = runs.values()
    rows = []
    for key in (key for key in first if all(key in run for run in others)):
        rows.append(
            [
                key,
                *(
                    f'{run[key]:.4g}' if isinstance(run[key], float) else str(run[key])
                    for run in runs.values()
                ),
            ]
        )
        if len(runs) == 2:
            rows[-1].append(f'{others[0][key] - first[key]:+.4g}')
    return align(rows, ['', *runs, *(['difference'] if len(runs) == 2 else [])], {0})


@command_line
def main(argv: Sequence[str]) -> None:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('work_dirs', nargs='+', metavar='WORK_DIR', help='work dirs of trainings')
    args = parser.parse_args(argv)
    print(render_comparison(args.work_dirs))


if __name__ == '__main__':
    sys.exit(main())
