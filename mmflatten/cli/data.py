"""Make a data set that needs no download.

`digits`: scenes of handwritten digits on photographs, laid out as COCO, ADE20K and ImageNet, or as SceneFlow.
"""
import argparse
import errno
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from mmengine.utils import ProgressBar

from mmflatten.datasets.digits.build import DigitSceneOptions, build_digit_scenes, is_finished


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog='mmflatten data', description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('source', choices=['digits'], help='which')
    made.add_argument('--stereo', action='store_true', help="rectified pairs with disparity, in SceneFlow's layout")
    made.add_argument('--out', type=Path, help='folder to make (default: data/digits, with --stereo '
                      'data/digits_stereo)')
    made.add_argument('--train', type=int, help='number of training scenes (default: 1000, with --stereo 400)')
    made.add_argument('--val', type=int, help='number of validation scenes (default: 200, with --stereo 80)')
    made.add_argument('--size', type=int, help='side of a scene in pixels, 32 to 1024 (default: 160); with --stereo '
                      'its height, and it is twice as wide (default: 96)')
    made.add_argument('--seed', type=int, default=0, help='the same seed gives the same bytes (default: 0)')
    made.add_argument('--force', action='store_true', help='replace digit scenes that are there already')
    return made


def prepare(args: argparse.Namespace) -> str:
    """Make the data set unless it is there; returns what to tell the user."""
    make_options, build = _kind(args.stereo)
    given = {name: getattr(args, name) for name in ('train', 'val', 'size') if getattr(args, name) is not None}
    options = make_options(**given, seed=args.seed)
    if is_finished(args.out, options, args.force):
        return f'{args.out} already holds these digit scenes, unchanged; nothing to do.'
    start = time.monotonic()
    bar = ProgressBar(options.train + options.val, start=False)

    def on_scene() -> None:
        if bar.completed == 0:
            bar.start()  # not earlier, so that nothing is drawn where nothing is made
        bar.update()

    try:
        manifest = build(args.out, options, args.force, on_scene)
    finally:
        if bar.completed:
            print()  # what follows, an error too, has a line of its own
    digits = manifest['instances']
    return (f'{args.out}: {options.train} training scenes with {digits["train"]} digits, {options.val} validation '
            f'scenes with {digits["val"]}, made in {time.monotonic() - start:.0f} s. '
            f'Look at {args.out}/contact_sheet.png.')


def _kind(stereo: bool) -> tuple[type[DigitSceneOptions], Callable]:
    """The options of a kind of scene, and the function that builds them."""
    if not stereo:
        return DigitSceneOptions, build_digit_scenes
    from mmflatten.datasets.digits.stereo_build import StereoSceneOptions, build_stereo_scenes  # takes PyTorch's time
    return StereoSceneOptions, build_stereo_scenes


def _stop(signum, frame) -> None:
    raise KeyboardInterrupt


def main(argv: list[str] | None = None) -> int:
    """Command line; returns the exit status."""
    signal.signal(signal.SIGTERM, _stop)
    args = parser().parse_args(argv)
    if args.out is None:
        args.out = Path('data/digits_stereo' if args.stereo else 'data/digits')
    try:
        print(prepare(args))
    except (ValueError, OSError, ImportError) as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        reason = f'{error.strerror} while writing {args.out}; make room or name a folder elsewhere' if full else error
        print(f'mmflatten data: {reason}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f'mmflatten data: interrupted; {args.out} is as it was before.', file=sys.stderr)
        return 130
    return 0
