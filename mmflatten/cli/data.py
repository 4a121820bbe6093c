"""Build a data set that needs little or no download.

`digits`: scenes of handwritten digits on photographs, in the layouts of COCO, ADE20K and ImageNet, or of SceneFlow.
`garments`: the same with the garments of Fashion-MNIST.
`fashion`: Fashion-MNIST as one file per image.
`canvases`: images of 64 garments (8 x 8); the label is the class of the one on a red background.

`mmflatten data shards` packs a data set into tar files, and `mmflatten data index` indexes a large data set; see their
--help.
"""
import errno
import math
import os
import signal
import sys
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from mmengine.utils import ProgressBar

from mmflatten.cli.common import positive
from mmflatten.console import explain
from mmflatten.datasets import fashion
from mmflatten.datasets.build import BuildOptions, is_finished
from mmflatten.datasets.packing import build_shards
from mmflatten.datasets.shards import build_index, find_splits

SOURCES = ('digits', 'garments', 'fashion', 'canvases')
PACKING = ('shards', 'index')
PACKING_HELP = """Pack class folders into tar shards, or index existing data.

`shards`: pack SOURCE/{train,val}/<class>/*.JPEG into tar files (WebDataset) with an index.
`index`: index a folder of class folders, a text file with lines such as `n01440764/n01440764_18.JPEG 0`, or tar files.

Configs read shards and indices through `mmflatten.IndexedImages`: docs/data_at_scale.md.
"""


def parser() -> ArgumentParser:
    parser = ArgumentParser(prog='mmflatten data', description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument('source', choices=SOURCES, help='data set')
    parser.add_argument('--stereo', action='store_true', help="rectified pairs with disparity, in SceneFlow's layout")
    parser.add_argument('--out', type=Path,
                        help='folder to create (default: data/SOURCE, or data/SOURCE_stereo with --stereo)')
    parser.add_argument('--train', type=int, help='number of training images (default: 1000 scenes, 400 stereo pairs, '
                        'all 60000 of Fashion-MNIST, 5000 canvases)')
    parser.add_argument('--val', type=int, help='number of validation images (default: 200 scenes, 80 stereo pairs, '
                        'all 10000 of Fashion-MNIST, 1000 canvases)')
    parser.add_argument('--size', type=int, help='side of a scene in pixels, 32 to 1024 (default: 160); with --stereo '
                        'the height, which is half of the width (default: 96)')
    parser.add_argument('--seed', type=int, help='the same seed gives the same bytes (default: 0)')
    parser.add_argument('--force', action='store_true', help='replace a data set built by this command')
    parser.add_argument('--files', type=Path, help=f'folder with the four files of Fashion-MNIST (default: '
                        f'{fashion.RAW_FOLDER}, or {fashion.DEBIAN_FOLDER} of the Debian package)')
    parser.add_argument('--download', action='store_true',
                        help=f'download these files into {fashion.RAW_FOLDER} first')
    return parser


def packing_parser() -> ArgumentParser:
    parser = ArgumentParser(prog='mmflatten data', description=PACKING_HELP,
                            formatter_class=RawDescriptionHelpFormatter)
    words = parser.add_subparsers(dest='word', required=True)
    shards = words.add_parser('shards', help='pack SOURCE/{train,val} into shards')
    shards.add_argument('source', type=Path, help='folder with train/, val/ or both')
    shards.add_argument('--out', type=Path, required=True, help='folder to create')
    shards.add_argument('--format', default='tar', metavar='tar', help='the only format (default: tar)')
    shards.add_argument('--shard-size', type=positive, default=1024, metavar='MIB',
                        help='size of a shard (default: 1024)')
    shards.add_argument('--no-check', action='store_true', help='skip the decoding test for broken images')
    shards.add_argument('--skip-broken', action='store_true', help='leave broken images out and list them')
    shards.add_argument('--processes', type=positive, default=len(os.sched_getaffinity(0)),
                        help='processes that pack, one shard each (default: one per CPU)')
    index = words.add_parser('index', help='index a folder, a text file or tar files')
    index.add_argument('source', type=Path, nargs='+', help='one folder, one .txt file, or tar files')
    index.add_argument('--out', type=Path, required=True,
                       help='index to create; shards are stored relative to its folder')
    return parser


@dataclass(frozen=True)
class DataBuilder:
    """A builder of one kind of data set, with its options and names for messages."""

    kind: str
    objects: str
    options: type[BuildOptions]
    build: Callable[..., dict[str, Any]]


def find_builder(args: Namespace) -> DataBuilder:
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

    def __init__(self, total: int, file: TextIO | None = None) -> None:
        self.file = file or sys.stdout
        self.bar = ProgressBar(total, start=False, file=self.file)
        self.step = 1 if self.file.isatty() else math.ceil(total / 10)
        self.images = 0

    def __call__(self) -> None:
        if self.images == 0:
            self.bar.start()  # no bar if nothing is built
        self.images += 1
        if self.images % self.step == 0 or self.images == self.bar.task_num:
            self.bar.update(self.images - self.bar.completed)

    def end(self) -> None:
        """End the line of the bar."""
        if self.bar.completed:
            print(file=self.file)


def prepare(args: Namespace) -> str:
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
        progress.end()
    counts = manifest['instances']
    return (f'{args.out}: {options.train} training and {options.val} validation images with {counts["train"]} and '
            f'{counts["val"]} {builder.objects}, built in {time.monotonic() - start:.0f} s. '
            f'See {args.out}/contact_sheet.png.')


def pack(args: Namespace) -> str:
    """Run `shards` or `index` and return the summary."""
    start = time.monotonic()
    if args.word == 'index':
        number = build_index(args.source, args.out)
        return f'{args.out}: {number} images indexed in {time.monotonic() - start:.0f} s.'
    if args.format != 'tar':
        raise ValueError(f'--format: expected tar, got {args.format}. Other formats were removed.')
    skipped: list[str] = []
    counts = build_shards(find_splits(args.source), args.out, args.shard_size * 2**20, not args.no_check,
                          skipped.append if args.skip_broken else None,
                          lambda shard, images: print(f'{shard}: {images} images', file=sys.stderr), args.processes)
    for message in skipped:
        print(f'left out: {message}', file=sys.stderr)
    summary = ' and '.join(f'{number} {split}' for split, number in counts.items())
    return f'{args.out}: {summary} images packed, {len(skipped)} left out, in {time.monotonic() - start:.0f} s.'


def _stop(signum, frame) -> None:
    raise KeyboardInterrupt


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    signal.signal(signal.SIGTERM, _stop)
    argv = sys.argv[1:] if argv is None else argv
    source = argv[0] if argv else None
    packing = source in PACKING
    args = (packing_parser() if packing else parser()).parse_args(argv)
    if args.out is None:
        args.out = Path('data', f'{args.source}_stereo' if args.stereo else args.source)
    try:
        print(pack(args) if packing else prepare(args))
    except Exception as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        reason = f'{error}. Make room or choose another disk.' if full else explain(error)
        print(f'mmflatten data: {reason}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f'mmflatten data: interrupted; {args.out} was not changed.', file=sys.stderr)
        return 130
    return 0


main.parser = parser
