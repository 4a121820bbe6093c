"""Options that several commands share."""
import argparse
from pathlib import Path

from mmflatten.console import TRACEBACK_VARIABLE


def tool_parser(description: str, **kwargs: object) -> argparse.ArgumentParser:
    """Make a parser that knows the options every tool shares (`--traceback`); `kwargs` as `ArgumentParser` has them."""
    parser = argparse.ArgumentParser(description=description, **kwargs)
    parser.add_argument('--traceback', action='store_true',
                        help=f'print the full traceback of a failure (so does {TRACEBACK_VARIABLE}=1)')
    return parser


def positive(text: str) -> int:
    """An integer above zero, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'must be a positive integer, received {text}')
    return int(text)


def natural(text: str) -> int:
    """A whole number from 0, for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'must be a whole number from 0, received {text}')
    return int(text)


def share(text: str) -> float:
    """A number from 0 to 1, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = -1.
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f'must be a number from 0 to 1, received {text}')
    return value


def seed(text: str) -> int:
    """A seed that NumPy takes, for argparse."""
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f'must be a whole number from 0 to {2**32 - 1}, received {text}')
    return int(text)


def output_folder(text: str) -> Path:
    """A folder to write into, made later, for argparse."""
    path = Path(text)
    taken = next((place for place in (path, *path.parents) if place.exists()), path)
    if taken.exists() and not taken.is_dir():
        raise argparse.ArgumentTypeError(f'must be a folder, and {taken} is a file; name another')
    return path
