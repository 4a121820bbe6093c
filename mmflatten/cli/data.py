"""Make a data set that needs no download, or next to none.

`digits`: scenes of handwritten digits on photographs, laid out as COCO, ADE20K and ImageNet, or as SceneFlow.
`garments`: the same with the garments of Fashion-MNIST.
`fashion`: Fashion-MNIST itself, each image in a file of its own.
`canvases`: 8 x 8 garments in a picture, and the question which one lies on the red ground.

`mmflatten data shards` packs a data set into few large files, and `mmflatten data index` lists a large one; each has a
--help of its own.
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
from mmflatten.datasets import canvases, fashion
from mmflatten.datasets.build import BuildOptions, is_finished

SOURCES = ('digits', 'garments', 'fashion', 'canvases')


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog='mmflatten data', description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('source', choices=SOURCES, help='which')
    made.add_argument('--stereo', action='store_true', help="rectified pairs with disparity, in SceneFlow's layout")
    made.add_argument('--out', type=Path, help='folder to make (default: data/SOURCE, with --stereo '
                      'data/SOURCE_stereo)')
    made.add_argument('--train', type=int, help='number of training images (default: 1000 scenes, 400 stereo pairs, '
                      'all 60000 of Fashion-MNIST, 5000 canvases)')
    made.add_argument('--val', type=int, help='number of validation images (default: 200 scenes, 80 stereo pairs, '
                      'all 10000 of Fashion-MNIST, 1000 canvases)')
    made.add_argument('--size', type=int, help='side of a scene in pixels, 32 to 1024 (default: 160); with --stereo '
                      'its height, and it is twice as wide (default: 96)')
    made.add_argument('--seed', type=int, help='the same seed gives the same bytes (default: 0)')
    made.add_argument('--force', action='store_true', help='replace what this command made there before')
    made.add_argument('--files', type=Path, help=f'folder with the four files of Fashion-MNIST (default: '
                      f'{fashion.RAW_FOLDER}, or {fashion.DEBIAN_FOLDER} of the Debian package)')
    made.add_argument('--download', action='store_true', help=f'fetch these files into {fashion.RAW_FOLDER} first')
    return made


@dataclass(frozen=True)
class Maker:
    """What makes a kind of data set: its options, its function, and what it is called."""

    kind: str
    objects: str
    options: type[BuildOptions]
    build: Callable[..., dict[str, Any]]


def maker(args: argparse.Namespace) -> Maker:
    """The maker that the command line asks for."""
    files = fashion.download() if args.download else args.files
    if args.source == 'fashion':
        return Maker(fashion.KIND, 'garments', fashion.FashionOptions, partial(fashion.build_fashion, folder=files))
    if args.source == 'canvases':
        return Maker(canvases.KIND, 'garments', canvases.CanvasOptions, partial(canvases.build_canvases, folder=files))
    from mmflatten.datasets.scenes.digits import DIGITS
    from mmflatten.datasets.scenes.garments import garments
    source = DIGITS if args.source == 'digits' else garments(files)
    if args.stereo:
        from mmflatten.datasets.scenes.stereo_build import StereoSceneOptions, build_stereo_scenes  # imports PyTorch
        options, build = StereoSceneOptions, build_stereo_scenes
    else:
        from mmflatten.datasets.scenes.build import SceneOptions, build_scenes
        options, build = SceneOptions, build_scenes
    return Maker(f'{source.name} scenes', f'{source.name}s', options, partial(build, source=source))


class Progress:
    """A bar that is called after every image, and drawn as often only on a terminal: a log gets ten steps."""

    def __init__(self, total: int) -> None:
        self.bar = ProgressBar(total, start=False)
        self.step = 1 if sys.stdout.isatty() else math.ceil(total / 10)
        self.images = 0

    def __call__(self) -> None:
        if self.images == 0:
            self.bar.start()  # not earlier, so that nothing is drawn where nothing is made
        self.images += 1
        if self.images % self.step == 0 or self.images == self.bar.task_num:
            self.bar.update(self.images - self.bar.completed)


def prepare(args: argparse.Namespace) -> str:
    """Make the data set unless it is there; returns what to tell the user."""
    if args.stereo and args.source not in ('digits', 'garments'):
        raise ValueError(f'--stereo is for digits and garments, not for {args.source}')
    made = maker(args)
    known = {field.name for field in fields(made.options) if field.init}
    given = {name: getattr(args, name) for name in ('train', 'val', 'size', 'seed') if getattr(args, name) is not None}
    if unknown := given.keys() - known:
        raise ValueError(f'--{min(unknown)} ({given[min(unknown)]}) is no option of {made.kind}')
    options = made.options(**given)
    if is_finished(args.out, made.kind, options, args.force):
        return f'{args.out} already holds these {made.kind}, unchanged; nothing to do.'
    start = time.monotonic()
    progress = Progress(options.train + options.val)
    try:
        manifest = made.build(args.out, options, force=args.force, on_image=progress)
    finally:
        if progress.bar.completed:
            print()  # what follows, an error too, has a line of its own
    counts = manifest['instances']
    return (f'{args.out}: {options.train} training and {options.val} validation images with {counts["train"]} and '
            f'{counts["val"]} {made.objects}, made in {time.monotonic() - start:.0f} s. '
            f'Look at {args.out}/contact_sheet.png.')


def _stop(signum, frame) -> None:
    raise KeyboardInterrupt


def main(argv: list[str] | None = None) -> int:
    """Command line; returns the exit status."""
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
        reason = f'{error.strerror} while writing {args.out}; make room or name a folder elsewhere' if full else error
        print(f'mmflatten data: {reason}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f'mmflatten data: interrupted; {args.out} is as it was before.', file=sys.stderr)
        return 130
    return 0
