"""Shared parts of commands: their decorator, common options, and types of arguments."""

import argparse
import math
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

from mmflatten.console import OUT_OF_SPACE, TRACEBACK_VARIABLE, command_line, print_progress
from mmflatten.deprecation import current_options
from mmflatten.untrusted.files import problem_of

FILE_SUFFIXES = ('.png', '.jpg', '.csv', '.json', '.html', '.md', '.pkl', '.pth', '.py')


def tool_parser(description: str, **kwargs: object) -> ArgumentParser:
    """Return a parser with the option `--traceback`.

    Args:
        kwargs: arguments of `ArgumentParser`.
    """
    parser = ArgumentParser(description=description, **kwargs)
    parser.add_argument(
        '--traceback',
        action='store_true',
        help=f'print the full traceback of an error (also {TRACEBACK_VARIABLE}=1)',
    )
    return parser


def command(
    name: str,
    description: str,
    options: Callable[[ArgumentParser], None] | None = None,
    parse: Callable[[ArgumentParser, Sequence[str], Namespace], Namespace] = (
        ArgumentParser.parse_args
    ),
) -> Callable[..., Any]:
    """Decorate a function of the parsed arguments to make it the command `mmflatten NAME`.

    The result is a function of `argv` that returns the exit status (see `console.command_line`).
    The arguments include the words of the command line, as `args.argv`. The decorated function
    imports its libraries, so that `--help` is fast and a missing library is a one-line error with
    the command that installs it.

    Args:
        options: adds the arguments to the parser that `main.parser()` makes.
        parse: method of `ArgumentParser` that parses `argv`.
    """

    def parser() -> ArgumentParser:
        made = tool_parser(
            description,
            prog=_program(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if options is not None:
            options(made)
        return made

    def decorate(run: Callable[[Namespace], int | None]) -> Callable[[Sequence[str] | None], int]:

        @command_line
        @wraps(run)
        def main(argv: Sequence[str]) -> int | None:
            words = current_options(name, argv)
            args = parse(parser(), words, Namespace(argv=words))
            if sys.stderr.isatty() and 'torch' not in sys.modules:
                print_progress(f'mmflatten {name}: loading libraries ...')
            try:
                return run(args)
            except OSError as error:
                # The error of a write, unlike that of opening a file, does not name the file.
                if error.errno in OUT_OF_SPACE and error.filename is None:
                    # Only the logs in a work dir are written so.
                    error.filename = getattr(args, 'work_dir', getattr(args, 'out', None))
                raise

        main.parser = parser
        return main

    return decorate


def _program(name: str) -> str:
    """Return the name of the running script of a checkout, otherwise `mmflatten NAME`."""
    script = Path(sys.argv[0])
    is_tool = script.suffix == '.py' and script.parent.name in ('tools', 'analysis')
    return str(script) if is_tool else f'mmflatten {name}'


def add_model(
    parser: ArgumentParser,
    config: str = 'config file',
    checkpoint: str = 'checkpoint file for this config',
) -> None:
    """Add the positional arguments `config` and `checkpoint`."""
    parser.add_argument('config', help=config)
    parser.add_argument('checkpoint', help=checkpoint)


def add_device(parser: ArgumentParser) -> None:
    parser.add_argument('--device', help='cpu, cuda or cuda:N (default: a GPU if available)')


def add_runtime(parser: ArgumentParser) -> None:
    from mmflatten.runtime import RUNTIMES

    parser.add_argument(
        '--runtime',
        choices=RUNTIMES,
        help='runtime of an exported file (default: onnxruntime; openvino for bfloat16)',
    )


def add_output(parser: ArgumentParser, folder: str, content: str) -> None:
    """Add `--out DIR` with the default `folder`."""
    parser.add_argument(
        '--out',
        type=output_folder,
        default=folder,
        metavar='DIR',
        help=f'folder for {content} (default: {folder})',
    )


def add_score(parser: ArgumentParser, meaning: str) -> None:
    parser.add_argument(
        '--score', type=fraction, default=0.3, metavar='S', help=f'{meaning} (default: 0.3)'
    )


def add_config_options(parser: ArgumentParser, example: str) -> None:
    from mmflatten.config import ConfigOptions

    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=ConfigOptions,
        metavar='KEY=VALUE',
        help=f'override fields of the config, for example {example}',
    )


def add_launcher(parser: ArgumentParser, scripts: str) -> None:
    parser.add_argument(
        '--launcher',
        choices=['none', 'pytorch', 'slurm', 'mpi'],
        default='none',
        help=f'set by {scripts}',
    )


def integer(low: int, high: float = math.inf) -> Callable[[str], int]:
    """Return a type of arguments: integers from `low` to `high`."""
    expected = f'of at least {low}' if high == math.inf else f'from {low} to {high}'

    def parse(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f'expected an integer {expected}, got {text}')
        return int(text)

    return parse


positive, non_negative = integer(1), integer(0)
seed = integer(0, 2**32 - 1)  # what NumPy accepts


def fraction(text: str) -> float:
    """Parse a number from 0 to 1."""
    with suppress(ValueError):
        if 0 <= float(text) <= 1:
            return float(text)
    raise argparse.ArgumentTypeError(f'expected a number from 0 to 1, got {text}')


def output_folder(text: str) -> Path:
    """Parse an output folder, which need not exist yet."""
    path = Path(text)
    if path.suffix in FILE_SUFFIXES:
        raise argparse.ArgumentTypeError(
            f'expected a folder, for several files, got the name of a file, {text}'
        )
    for place in (path, *path.parents):
        if place.is_dir():
            break
        if os.path.lexists(place):
            kind = problem_of(place) or 'is a file'
            raise argparse.ArgumentTypeError(f'expected a folder, but {place} {kind}')
    return path


def folder_name(text: str) -> str:
    """Parse an output folder for MMEngine, which expects text."""
    output_folder(text)
    return text


def require_folder(option: str, file: Path) -> None:
    """Raise ValueError if `file` is a folder, or its folder does not exist."""
    if file.is_dir():
        raise ValueError(f'{option}: expected a file, got the folder {file}. Name a file in it.')
    if not file.absolute().parent.is_dir():
        raise ValueError(f'{option}: the folder of {file} does not exist. Create it first.')
