"""Parser and argument types shared by commands."""
import argparse
from pathlib import Path

from mmflatten.console import TRACEBACK_VARIABLE


def tool_parser(description: str, **kwargs: object) -> argparse.ArgumentParser:
    """Return a parser with the option `--traceback`; `kwargs` are arguments of `ArgumentParser`."""
    parser = argparse.ArgumentParser(description=description, **kwargs)
    parser.add_argument('--traceback', action='store_true',
                        help=f'print the full traceback of an error (also {TRACEBACK_VARIABLE}=1)')
    return parser


def positive(text: str) -> int:
    """Parse a positive integer."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'expected a positive integer, got {text}')
    return int(text)


def non_negative(text: str) -> int:
    """Parse a non-negative integer."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f'expected a non-negative integer, got {text}')
    return int(text)


def fraction(text: str) -> float:
    """Parse a number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f'expected a number from 0 to 1, got {text}')
    return value


def seed(text: str) -> int:
    """Parse a seed that NumPy accepts."""
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f'expected an integer from 0 to {2**32 - 1}, got {text}')
    return int(text)


def output_folder(text: str) -> Path:
    """Parse an output folder, which need not exist yet."""
    path = Path(text)
    existing = next((place for place in (path, *path.parents) if place.exists()), None)
    if existing is not None and not existing.is_dir():
        raise argparse.ArgumentTypeError(f'expected a folder, got the file {existing}')
    return path


