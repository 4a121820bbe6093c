"""Build a data set from the garments of Fashion-MNIST: 70,000 photographs of 28 x 28 grey pixels,
10 classes.

    mmflatten garments scenes             scenes of garments on photographs,
                                          as `mmflatten data digits` makes them
    mmflatten garments scenes --stereo    rectified pairs of them with disparity
    mmflatten garments scenes --panoptic  scenes on textures with panoptic segments
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mmflatten.cli.common import command
from mmflatten.cli.data import (
    SCENE_DEFAULTS,
    add_build_options,
    add_scene_options,
    build,
    scene_builder,
    scene_folder,
)
from mmflatten_lab.garments import fashion


def options(parser: ArgumentParser) -> None:
    parser.add_argument('action', choices=['scenes'], help='what to build')
    add_build_options(parser, *SCENE_DEFAULTS)
    add_scene_options(parser)
    parser.add_argument(
        '--files',
        type=Path,
        help=(
            'folder with the four files of Fashion-MNIST (default: '
            f'{fashion.RAW_FOLDER}, or {fashion.DEBIAN_FOLDER} of the Debian package)'
        ),
    )
    parser.add_argument(
        '--download',
        action='store_true',
        help=f'download these files into {fashion.RAW_FOLDER} first',
    )


@command('garments', __doc__, options)
def main(args: Namespace) -> None:
    from mmflatten_lab.garments.scenes import garments

    files = fashion.download() if args.download else args.files
    build(
        args,
        scene_builder(garments(files), args),
        args.out or scene_folder('garments', args),
    )
