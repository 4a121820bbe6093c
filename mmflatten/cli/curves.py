"""Draw curves of trainings from the logs in their work dirs. A resumed training is one curve.

    mmflatten curves work_dirs/one work_dirs/two --out curves.png
    mmflatten curves work_dirs/one --keys loss lr coco/bbox_mAP --out curves.png
"""
from argparse import ArgumentParser, Namespace
from pathlib import Path

from mmflatten.cli.common import command


def options(parser: ArgumentParser) -> None:
    parser.add_argument('work_dirs', nargs='+', metavar='WORK_DIR', help='work dirs of trainings')
    parser.add_argument('--out', default='curves.png', metavar='FILE', help='PNG to write (default: curves.png)')
    parser.add_argument('--keys', nargs='+', metavar='KEY',
                        help='keys of the logs to draw (default: the loss and the validation metrics)')


@command('curves', __doc__, options)
def main(args: Namespace) -> None:
    from mmflatten.results.curves import curve, is_training, iteration_of, keys_of, read_runs
    from mmflatten.results.drawing import save_png
    if Path(args.out).suffix != '.png':
        raise ValueError(f'--out: expected a file NAME.png, got {args.out}.')
    runs = read_runs(args.work_dirs)
    keys = keys_of(runs, args.keys)
    Path(args.out).parent.mkdir(parents=True, exist_ok=True)
    save_png(args.out, {key: curve(key, runs) for key in keys})
    for name, records in runs.items():
        last = max(iteration_of(record) for record in records if is_training(record))
        print(f'{name}: {len(records)} records up to iteration {last}')
    print(args.out)
