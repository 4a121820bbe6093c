"""Reading config files, with a message that names the file where it is none."""
import argparse
import difflib
import json
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config, DictAction

_SUFFIXES = ('.py', '.json', '.yaml', '.yml')
_MANY_CONFIGS = 2000  # searched for a name like the one that does not exist


class ConfigError(ValueError):
    """A file that is no config, or a config that lacks a part."""


class ConfigOptions(DictAction):
    """`--cfg-options KEY=VALUE ...`; a word without `=` is an error of the command line."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Sequence[str],
                 option_string: Any = None) -> None:
        for word in values:
            if not word.partition('=')[0] or '=' not in word:
                parser.error(f'argument {option_string}: {word!r} must be KEY=VALUE, such as train_cfg.max_epochs=3')
        super().__call__(parser, namespace, values, option_string)


def require_config_file(path: str) -> None:
    """Raise FileNotFoundError or ConfigError, with what is there instead, unless `path` can be a config."""
    place = Path(path)
    if place.is_dir():
        raise ConfigError(f'config {path} is a folder; {_listing(place)}')
    if not place.is_file():
        raise FileNotFoundError(f'config {path} does not exist; {_nearby(place)}')
    if place.suffix not in _SUFFIXES:
        raise ConfigError(f'config {path} must be one of {", ".join(_SUFFIXES)}')


def read_config(path: str) -> Config:
    """`Config.fromfile` that says which file, of those a config inherits from, cannot be read.

    Raises:
        FileNotFoundError, ConfigError: there is no such config, or it cannot be read.
        SyntaxError, UnicodeDecodeError: as Python raises them.
    """
    require_config_file(path)
    try:
        return Config.fromfile(path)
    except (SyntaxError, UnicodeDecodeError):
        raise
    except Exception as error:
        raise ConfigError(_reading_failure(path, error)) from error


def require_parts(cfg: Config, *names: str) -> None:
    """Raise ConfigError unless the config has all of its fields `names`."""
    lacking = [name for name in names if cfg.get(name) is None]
    if lacking:
        raise ConfigError(f'config {cfg.filename} has no {", ".join(lacking)}; a file of configs/_base_ is a part of a '
                          'config: name one that inherits from it, or add what is missing')


def _reading_failure(path: str, error: Exception) -> str:
    reading = [frame.f_locals['filename'] for frame, _ in traceback.walk_tb(error.__traceback__)
               if frame.f_code.co_name == '_file2dict']
    file = reading[-1] if reading else path
    if isinstance(error, FileNotFoundError) and len(reading) > 1 and not Path(file).exists():
        return f'config {reading[-2]} inherits from {file}, which does not exist; mend its _base_'
    if isinstance(error, json.JSONDecodeError):
        return f'config {file} is not JSON: {error}'
    stack = traceback.extract_tb(error.__traceback__)
    lines = [f', line {entry.lineno}' for entry in stack if entry.filename == file]
    reason = str(error) or 'is it a config?'
    return f'config {file}{"".join(lines[-1:])} cannot be read: {type(error).__name__}: {reason}'


def _nearby(path: Path) -> str:
    folder = path.parent
    while not folder.is_dir():
        folder = folder.parent
    stems = {}
    for _, candidate in zip(range(_MANY_CONFIGS), folder.rglob('*.py') if folder != Path('/') else ()):
        stems.setdefault(candidate.name, candidate)
    close = difflib.get_close_matches(path.name, stems, n=1, cutoff=0.8)
    return f'did you mean {stems[close[0]]}?' if close else _listing(folder)


def _listing(folder: Path) -> str:
    """A few configs of a folder, or its subfolders where it has none."""
    configs = sorted(path.name for path in folder.glob('*.py') if path.name != 'setup.py')
    folders = (path.name for path in folder.iterdir() if path.is_dir() and path.name[0] not in '._')
    names = configs or [f'{name}/' for name in sorted(folders)]
    if not names:
        return f'{folder} has no configs'
    return f'{folder} has {", ".join(names[:5])}' + (', ...' if len(names) > 5 else '')
