"""Check your data and write a config for it.

    mmflatten init --task det --images photos --ann train.json val.json --base CONFIG --out mine.py
    mmflatten init --task seg --images photos --ann label_maps --classes sky road car --base CONFIG --out mine.py
    mmflatten init --task cls --images folder_of_class_folders --base CONFIG --out mine.py
    mmflatten init --task stereo --images folder_with_left_right_disparity --base CONFIG --out mine.py

A single annotation file or folder is split into training and validation. See docs/own_data.md.
"""
import argparse
from collections.abc import Sequence
from pathlib import Path

from mmflatten.cli.common import fraction, positive, tool_parser
from mmflatten.console import command_line
from mmflatten.tasks import tasks


def parser() -> argparse.ArgumentParser:
    made = tool_parser(__doc__, prog='mmflatten init', formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [task.abbreviation for task in tasks().values() if task.abbreviation]
    made.add_argument('--task', required=True, choices=names)
    made.add_argument('--images', required=True, nargs='+', type=Path, metavar='DIR',
                      help='folder of images, or one for training and one for validation')
    made.add_argument('--ann', nargs='+', type=Path, metavar='PATH',
                      help='det: COCO files; seg: folders of label maps; one, or training and validation')
    made.add_argument('--base', required=True, metavar='CONFIG', help='config of the model and the schedule')
    made.add_argument('--out', required=True, type=Path, metavar='FILE.py', help='config to write')
    made.add_argument('--classes', nargs='+', metavar='NAME',
                      help='det: categories to keep; seg: names of the values 0, 1, ...')
    made.add_argument('--val-share', type=fraction, default=0.2, metavar='S',
                      help='fraction for validation if the data has one part (default: 0.2)')
    made.add_argument('--batch', type=positive, metavar='N', help='batch size (default: as in the base)')
    made.add_argument('--checkpoint', type=Path, metavar='FILE', help='initial weights')
    made.add_argument('--force', action='store_true', help='replace FILE.py and its splits if they exist')
    return made


@command_line
def main(argv: Sequence[str]) -> None:
    args = parser().parse_args(argv)
    # Imported late, so that a missing library gives an error of one line.
    from mmflatten.own_data.init import Request, initialise
    for line in initialise(Request(**{name: value for name, value in vars(args).items() if name != 'traceback'})):
        print(line, flush=True)
