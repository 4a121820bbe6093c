"""Make the digit scenes: handwritten digits on photographs, in the layouts of COCO, ADE20K and ImageNet."""
import argparse
import signal
import sys
import time
from pathlib import Path
from typing import List, Optional

from mmengine.utils import ProgressBar

from mmflatten.datasets.digits.build import DigitSceneOptions, build_digit_scenes, is_finished


def parse_args(argv: Optional[List[str]]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--out', type=Path, default=Path('data/digits'), help='folder to make (default: data/digits)')
    parser.add_argument('--train', type=int, default=1000, help='number of training scenes (default: 1000)')
    parser.add_argument('--val', type=int, default=200, help='number of validation scenes (default: 200)')
    parser.add_argument('--size', type=int, default=160, help='side of a scene in pixels, 32 to 1024 (default: 160)')
    parser.add_argument('--seed', type=int, default=0, help='the same seed gives the same bytes (default: 0)')
    parser.add_argument('--force', action='store_true', help='replace digit scenes that are there already')
    return parser.parse_args(argv)


def prepare(args: argparse.Namespace) -> str:
    """Make the data set unless it is there; returns what to tell the user."""
    options = DigitSceneOptions(args.train, args.val, args.size, args.seed)
    if is_finished(args.out, options, args.force):
        return f'{args.out} already holds these digit scenes, unchanged; nothing to do.'
    start = time.monotonic()
    bar = ProgressBar(args.train + args.val, start=False)

    def on_scene() -> None:
        if bar.completed == 0:
            bar.start()  # not earlier, so that an error message has a line of its own
        bar.update()

    manifest = build_digit_scenes(args.out, options, args.force, on_scene)
    digits = manifest['instances']
    return (f'\n{args.out}: {args.train} training scenes with {digits["train"]} digits, {args.val} validation scenes '
            f'with {digits["val"]}, made in {time.monotonic() - start:.0f} s. Look at {args.out}/contact_sheet.png.')


def _stop(signum, frame) -> None:
    raise KeyboardInterrupt


def main(argv: Optional[List[str]] = None) -> int:
    """Command line; returns the exit status."""
    signal.signal(signal.SIGTERM, _stop)
    args = parse_args(argv)
    try:
        print(prepare(args))
    except (ValueError, OSError, ImportError) as error:
        print(f'prepare_digits: {error}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f'\nprepare_digits: interrupted; {args.out} is as it was before.', file=sys.stderr)
        return 130
    return 0


if __name__ == '__main__':
    sys.exit(main())
