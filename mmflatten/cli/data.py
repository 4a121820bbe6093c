"""Build the digit scenes, or index a large data set.

    mmflatten data digits
    mmflatten data digits --panoptic
    mmflatten data digits --stereo
    mmflatten data index data/shards/train-*.tar --out data/shards/train.index

Scenes of handwritten digits have the layouts of COCO, ADE20K and ImageNet. Stereo pairs are
rectified, and have disparities in the layout of SceneFlow. Panoptic scenes have textured
backgrounds, and segments in the layout of COCO.
"""

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from mmengine.utils import ProgressBar

from mmflatten.cli.common import command
from mmflatten.datasets.build import BuildOptions, is_finished
from mmflatten.datasets.shards import build_index

SCENE_DEFAULTS = (
    'default: 1000 scenes or 400 stereo pairs',
    'default: 200 scenes or 80 stereo pairs',
)


def options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest='action', metavar='ACTION', required=True)
    digits = actions.add_parser('digits', help='build scenes of handwritten digits on photographs')
    add_build_options(digits, *SCENE_DEFAULTS)
    add_scene_options(digits)
    digits.set_defaults(source='digits')
    index = actions.add_parser('index', help='index a folder, a text file or tar files')
    index.add_argument(
        'source',
        type=Path,
        nargs='+',
        help=(
            'one folder of class folders, one .txt file with lines '
            'such as `n01440764/n01440764_18.JPEG 0`, or tar files'
        ),
    )
    index.add_argument(
        '--out',
        type=Path,
        required=True,
        help='index to create; shards are stored relative to its folder',
    )


def add_build_options(parser: ArgumentParser, train: str, val: str) -> None:
    """Add the options of every generated data set.

    Args:
        train, val: descriptions of the default numbers of images.
    """
    parser.add_argument('--out', type=Path, help='folder to create (default: one in data/)')
    parser.add_argument(
        '--train', type=int, metavar='N', help=f'number of training images ({train})'
    )
    parser.add_argument('--val', type=int, metavar='N', help=f'number of validation images ({val})')
    parser.add_argument(
        '--force', action='store_true', help='replace a data set built by this command'
    )


def add_scene_options(parser: ArgumentParser) -> None:
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        '--stereo',
        action='store_true',
        help="rectified pairs with disparity, in SceneFlow's layout",
    )
    kinds.add_argument(
        '--panoptic',
        action='store_true',
        help="scenes on textures, with segments in COCO's panoptic layout",
    )
    parser.add_argument(
        '--size',
        type=int,
        metavar='PIXELS',
        help=(
            'side of a scene, 32 to 1024 (default: 160); with '
            '--stereo the height, which is half of the width (default: 96)'
        ),
    )
    parser.add_argument('--seed', type=int, help='the same seed gives the same bytes (default: 0)')


@dataclass(frozen=True)
class DataBuilder:
    """A builder of one kind of data set, with its options and names for messages."""

    kind: str
    objects: str
    options: type[BuildOptions]
    build: Callable[..., dict[str, Any]]


def scene_folder(name: str, args: Namespace) -> Path:
    """Return the default folder of scenes, of the kind that `add_scene_options` offers."""
    if args.stereo:
        return Path('data', f'{name}_stereo')
    return Path('data', f'{name}_panoptic' if args.panoptic else name)


def scene_builder(source: Any, args: Namespace) -> DataBuilder:
    """Return a builder of scenes of the objects of a `Source`, of the kind that
    `add_scene_options` offers.
    """
    options: type[BuildOptions]
    if args.stereo:
        # imports PyTorch
        from mmflatten.datasets.scenes.stereo_build import StereoSceneOptions, build_stereo_scenes

        options, build = StereoSceneOptions, build_stereo_scenes
    elif args.panoptic:
        from mmflatten.datasets.scenes.panoptic_build import (
            PanopticSceneOptions,
            build_panoptic_scenes,
        )

        options, build = PanopticSceneOptions, build_panoptic_scenes
    else:
        from mmflatten.datasets.scenes.build import SceneOptions, build_scenes

        options, build = SceneOptions, build_scenes
    return DataBuilder(
        kind=f'{source.name} scenes',
        objects=f'{source.name}s',
        options=options,
        build=partial(build, source=source),
    )


def build(args: Namespace, builder: DataBuilder, out: Path) -> None:
    """Build a data set unless it exists, and print a summary.

    Args:
        args: `force` and the options of the builder, of `train`, `val`, `size` and `seed`. None
            means the builder's default.
    """
    given = {}
    for field in fields(builder.options):
        value = getattr(args, field.name, None)
        if field.init and value is not None:
            given[field.name] = value
    options = builder.options(**given)
    if is_finished(out, builder.kind, options, force=args.force):
        print(f'{out}: these {builder.kind} exist already; nothing to do.')
        return
    start = time.monotonic()
    if sys.stdout.isatty():
        progress = ProgressBar(options.train + options.val, file=sys.stdout)
        try:
            manifest = builder.build(out, options, force=args.force, on_image=progress.update)
        finally:
            print()  # ends the line of the bar
    else:
        manifest = builder.build(out, options, force=args.force)
    counts = manifest['instances']
    print(
        f'{out}: {options.train} training and {options.val} validation images with'
        f' {counts["train"]} and {counts["val"]} {builder.objects}, built in'
        f' {time.monotonic() - start:.0f} s.'
    )


@command('data', __doc__, options)
def main(args: Namespace) -> None:
    if args.action == 'digits':
        from mmflatten.datasets.scenes.digits import DIGITS

        build(args, scene_builder(DIGITS, args), args.out or scene_folder('digits', args))
    else:
        start = time.monotonic()
        number = build_index(args.source, args.out)
        print(f'{args.out}: {number} images indexed in {time.monotonic() - start:.0f} s.')
