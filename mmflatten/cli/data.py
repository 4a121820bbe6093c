"""Build a data set that needs little or no download.

`digits`: scenes of handwritten digits on photographs, in the layouts of COCO, ADE20K and ImageNet, or of SceneFlow.
`garments`: the same with the garments of Fashion-MNIST.
`fashion`: Fashion-MNIST as one file per image.
`canvases`: 8 x 8 garments in an image; the label is the garment on red ground.

`mmflatten data shards` packs a data set into tar files, and `mmflatten data index` indexes a large data set; see their
--help.
"""
import argparse
import errno
import math
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from mmengine.utils import ProgressBar

from mmflatten.cli import data_shards
from mmflatten.datasets import fashion
from mmflatten.datasets.build import BuildOptions, is_finished

SOURCES = ('digits', 'garments', 'fashion', 'canvases')


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog='mmflatten data', description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('source', choices=SOURCES, help='data set')
    made.add_argument('--stereo', action='store_true', help="rectified pairs with disparity, in SceneFlow's layout")
    made.add_argument('--out', type=Path, help='folder to create (default: data/SOURCE, or '
                      'data/SOURCE_stereo with --stereo)')
    made.add_argument('--train', type=int, help='number of training images (default: 1000 scenes, 400 stereo pairs, '
                      'all 60000 of Fashion-MNIST, 5000 canvases)')
    made.add_argument('--val', type=int, help='number of validation images (default: 200 scenes, 80 stereo pairs, '
                      'all 10000 of Fashion-MNIST, 1000 canvases)')
    made.add_argument('--size', type=int, help='side of a scene in pixels, 32 to 1024 (default: 160); with --stereo '
                      'the height, which is half of the width (default: 96)')
    made.add_argument('--seed', type=int, help='the same seed gives the same bytes (default: 0)')
    made.add_argument('--force', action='store_true', help='replace a data set built by this command')
    made.add_argument('--files', type=Path, help=f'folder with the four files of Fashion-MNIST (default: '
                      f'{fashion.RAW_FOLDER}, or {fashion.DEBIAN_FOLDER} of the Debian package)')
    made.add_argument('--download', action='store_true', help=f'download these files into {fashion.RAW_FOLDER} first')
    return made


@dataclass(frozen=True)
class DataBuilder:
    """A builder of one kind of data set, with its options and names for messages."""

    kind: str
    objects: str
    options: type[BuildOptions]
    build: Callable[..., dict[str, Any]]


def find_builder(args: argparse.Namespace) -> DataBuilder:
    """Select the builder for the arguments."""
    files = fashion.download() if args.download else args.files
    if args.source == 'fashion':
        return DataBuilder(fashion.FASHION_KIND, 'garments', fashion.FashionOptions,
                           partial(fashion.build_fashion, folder=files))
    if args.source == 'canvases':
        return DataBuilder(fashion.CANVAS_KIND, 'garments', fashion.CanvasOptions,
                           partial(fashion.build_canvases, folder=files))
    from mmflatten.datasets.scenes.digits import DIGITS
    from mmflatten.datasets.scenes.garments import garments
    source = DIGITS if args.source == 'digits' else garments(files)
    if args.stereo:
        from mmflatten.datasets.scenes.stereo_build import StereoSceneOptions, build_stereo_scenes  # imports PyTorch
        options, build = StereoSceneOptions, build_stereo_scenes
    else:
        from mmflatten.datasets.scenes.build import SceneOptions, build_scenes
        options, build = SceneOptions, build_scenes
    return DataBuilder(f'{source.name} scenes', f'{source.name}s', options, partial(build, source=source))


class ImageProgress:
    """Progress bar that is called after each image: updated each time on a terminal, ten times in a log."""

    def __init__(self, total: int) -> None:
        self.bar = ProgressBar(total, start=False)
        self.step = 1 if sys.stdout.isatty() else math.ceil(total / 10)
        self.images = 0

    def __call__(self) -> None:
        if self.images == 0:
            self.bar.start()  # no bar if nothing is built
        self.images += 1
        if self.images % self.step == 0 or self.images == self.bar.task_num:
            self.bar.update(self.images - self.bar.completed)


def prepare(args: argparse.Namespace) -> str:
    """Build the data set unless it exists, and return the summary."""
    if args.stereo and args.source not in ('digits', 'garments'):
        raise ValueError(f'--stereo works with digits and garments, got {args.source}')
    builder = find_builder(args)
    known = {field.name for field in fields(builder.options) if field.init}
    values = {name: getattr(args, name) for name in ('train', 'val', 'size', 'seed') if getattr(args, name) is not None}
    if unknown := values.keys() - known:
        raise ValueError(f'--{min(unknown)} ({values[min(unknown)]}): {builder.kind} do not have this option')
    options = builder.options(**values)
    if is_finished(args.out, builder.kind, options, args.force):
        return f'{args.out}: these {builder.kind} exist already; nothing to do.'
    start = time.monotonic()
    progress = ImageProgress(options.train + options.val)
    try:
        manifest = builder.build(args.out, options, force=args.force, on_image=progress)
    finally:
        if progress.bar.completed:
            print()  # ends the line of the bar
    counts = manifest['instances']
    return (f'{args.out}: {options.train} training and {options.val} validation images with {counts["train"]} and '
            f'{counts["val"]} {builder.objects}, built in {time.monotonic() - start:.0f} s. '
            f'See {args.out}/contact_sheet.png.')


def _stop(signum, frame) -> None:
    raise KeyboardInterrupt


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    signal.signal(signal.SIGTERM, _stop)
    argv = sys.argv[1:] if argv is None else argv
    packing = argv and argv[0] in data_shards.WORDS
    args = (data_shards.parser() if packing else parser()).parse_args(argv)
    if args.out is None:
        args.out = Path('data', f'{args.source}_stereo' if args.stereo else args.source)
    try:
        print(data_shards.pack(args) if packing else prepare(args))
    except (ValueError, OSError, ImportError) as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        reason = f'{error.strerror} while writing {args.out}. Make room or choose another disk.' if full else error
        print(f'mmflatten data: {reason}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f'mmflatten data: interrupted; {args.out} was not changed.', file=sys.stderr)
        return 130
    return 0
