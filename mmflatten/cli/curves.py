"""Curves of trainings from the logs in their work dirs; what was interrupted and resumed is one curve.

    mmflatten curves work_dirs/one work_dirs/two --out curves.png
    mmflatten curves work_dirs/one --keys loss lr coco/bbox_mAP --out curves.png
"""
import argparse
from collections.abc import Sequence

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line


def parser() -> argparse.ArgumentParser:
    made = tool_parser(__doc__, prog='mmflatten curves', formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('work_dirs', nargs='+', metavar='WORK_DIR', help='work dirs of trainings')
    made.add_argument('--out', default='curves.png', metavar='FILE', help='PNG to write (default: curves.png)')
    made.add_argument('--keys', nargs='+', metavar='KEY',
                      help='figures of the logs to draw (default: the loss and the metrics of the validations)')
    return made


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    # Imported here, so that a missing library ends with one line that says how to install it.
    from pathlib import Path

    from mmflatten.results.curves import draw_runs, is_training
    from mmflatten.results.runs import read_curves
    if Path(args.out).suffix != '.png':
        raise ValueError(f'--out ({args.out}) must be a file NAME.png')
    runs, keys = read_curves(args.work_dirs, args.keys)
    Path(args.out).parent.mkdir(parents=True, exist_ok=True)
    draw_runs(runs, keys, args.out)
    for name, records in runs.items():
        last = max(record.get('iter', record['step']) for record in records if is_training(record))
        print(f'{name}: {len(records)} records up to iteration {last}')
    print(args.out)
