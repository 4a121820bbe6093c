"""Check your data and write a config for it.

    mmflatten init --task det --images photos --ann train.json val.json --base CONFIG --out mine.py
    mmflatten init --task seg --images photos --ann maps --classes a b --base CONFIG --out mine.py
    mmflatten init --task panoptic --images photos --ann a.json b.json --base CONFIG --out mine.py
    mmflatten init --task cls --images folder_of_class_folders --base CONFIG --out mine.py
    mmflatten init --task stereo --images folder_of_pairs --base CONFIG --out mine.py

    mmflatten init --task det --ann data.yaml --base CONFIG --out mine.py

A single annotation file or folder is split into training and validation. See docs/own_data.md.
"""

from argparse import ArgumentParser, Namespace
from dataclasses import fields
from pathlib import Path

from mmflatten.cli.common import command, fraction, positive


def options(parser: ArgumentParser) -> None:
    from mmflatten.tasks import tasks

    names = [task.abbreviation for task in tasks().values() if task.abbreviation]
    parser.add_argument(
        '--task',
        required=True,
        choices=names,
        help='classification, detection, panoptic or semantic segmentation, or stereo',
    )
    parser.add_argument(
        '--images',
        nargs='+',
        default=[],
        type=Path,
        metavar='DIR',
        help=(
            'folder of images, or one for training and one for validation (default: that of --ann)'
        ),
    )
    parser.add_argument(
        '--ann',
        nargs='+',
        type=Path,
        metavar='PATH',
        help=(
            'det: COCO files, data.yaml of YOLO, or folders of YOLO, Pascal VOC or labelme files; '
            'seg: folders of label maps; panoptic: COCO files, with the PNG files of NAME.json in '
            'the folder NAME; one, or training and validation'
        ),
    )
    parser.add_argument(
        '--base', required=True, metavar='CONFIG', help='config of the model and the schedule'
    )
    parser.add_argument(
        '--out', required=True, type=Path, metavar='FILE.py', help='config to write'
    )
    parser.add_argument(
        '--classes',
        nargs='+',
        metavar='NAME',
        help='det: categories to keep; seg: names of the values 0, 1, ...',
    )
    parser.add_argument(
        '--val-share',
        type=fraction,
        default=0.2,
        metavar='S',
        help='fraction for validation if the data has one part (default: 0.2)',
    )
    parser.add_argument(
        '--batch', type=positive, metavar='N', help='batch size (default: as in the base)'
    )
    parser.add_argument('--checkpoint', type=Path, metavar='FILE', help='initial weights')
    parser.add_argument(
        '--crowds-as-objects',
        action='store_true',
        help='det: learn annotations with iscrowd=1, such as masks of a brush in CVAT',
    )
    parser.add_argument(
        '--bands',
        action='store_true',
        help='read all bands and bits of TIFF, .npy and PNG files, and compute their norms',
    )
    parser.add_argument(
        '--force', action='store_true', help='replace FILE.py and its splits if they exist'
    )


@command('init', __doc__, options)
def main(args: Namespace) -> None:
    from mmflatten.custom_data.init import Request, initialise

    names = {field.name for field in fields(Request)}
    options = {name: value for name, value in vars(args).items() if name in names}
    for line in initialise(Request(**options)):
        print(line, flush=True)
