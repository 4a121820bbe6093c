"""Build a data set from the garments of Fashion-MNIST: 70,000 photographs of 28 x 28 grey pixels, 10 classes.

    mmflatten garments scenes             scenes of garments on photographs, as `mmflatten data digits` makes them
    mmflatten garments scenes --stereo    rectified pairs of them with disparity
    mmflatten garments images             Fashion-MNIST, one file per image
"""
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path

from mmflatten.cli.common import command
from mmflatten.cli.data import SCENE_DEFAULTS, DataBuilder, add_build_options, add_scene_options, build, scene_builder
from mmflatten_lab.garments import fashion


def options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest='action', metavar='ACTION', required=True)
    scenes = actions.add_parser('scenes', help='scenes of garments on photographs')
    add_build_options(scenes, *SCENE_DEFAULTS)
    add_scene_options(scenes)
    images = actions.add_parser('images', help='Fashion-MNIST, one file per image')
    add_build_options(images, 'default: all 60000', 'default: all 10000')
    for part in (scenes, images):
        part.add_argument('--files', type=Path, help=f'folder with the four files of Fashion-MNIST (default: '
                          f'{fashion.RAW_FOLDER}, or {fashion.DEBIAN_FOLDER} of the Debian package)')
        part.add_argument('--download', action='store_true',
                          help=f'download these files into {fashion.RAW_FOLDER} first')


@command('garments', __doc__, options)
def main(args: Namespace) -> None:
    files = fashion.download() if args.download else args.files
    if args.action == 'scenes':
        from mmflatten_lab.garments.scenes import garments
        build(args, scene_builder(garments(files), args.stereo),
              args.out or Path('data', 'garments_stereo' if args.stereo else 'garments'))
    else:
        build(args, DataBuilder(fashion.FASHION_KIND, 'garments', fashion.FashionOptions,
                                partial(fashion.build_fashion, folder=files)), args.out or Path('data', 'fashion'))
