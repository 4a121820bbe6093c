"""Reading config files: where one of them cannot be read, the message names it."""
import argparse
import difflib
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config, DictAction

from mmflatten.checkpoints.rules import shorten
from mmflatten.config_library import find_config, library


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


def config_file(path: str) -> str:
    """The file that `path` means, which may also be the name of one of the configs that travel with the package.

    Raises:
        ConfigError: it is a folder.
        FileNotFoundError: there is no such config; the message says what is there instead.
    """
    place = Path(path)
    if place.is_dir():
        raise ConfigError(f'config {path} is a folder; {_listing(place)}')
    found = find_config(path)
    if found is None:
        near = _listing(place.parent, place.name, alone='/' not in path)
        raise FileNotFoundError(f'config {path} does not exist; {near}')
    return str(found)


def read_config(path: str) -> Config:
    """`Config.fromfile` that says which file, of those a config inherits from, cannot be read.

    Raises:
        FileNotFoundError: there is no such config.
        ConfigError: it cannot be read.
    """
    path = config_file(path)
    try:
        return Config.fromfile(path)
    except Exception as error:
        for base in _bases(Path(path)):  # the fault may lie in one of these, which then cannot be read by itself
            if not base.is_file():
                raise ConfigError(f'config {path} inherits from {base}, which does not exist; correct its _base_'
                                  ) from error
            read_config(str(base))
        lines = [f', line {entry.lineno}' for entry in traceback.extract_tb(error.__traceback__)
                 if entry.filename == str(path)]
        reason = str(error) or 'is it a config?'
        raise ConfigError(f'config {path}{"".join(lines[-1:])} cannot be read: {type(error).__name__}: {reason}'
                          ) from error


def require_parts(cfg: Config, *names: str) -> None:
    """Raise ConfigError unless the config has all of its fields `names`."""
    lacking = [name for name in names if cfg.get(name) is None]
    if lacking:
        raise ConfigError(f'config {cfg.filename} has no {", ".join(lacking)}; a file of configs/_base_ is a part of a '
                          'config: name one that inherits from it, or add what is missing')


def _bases(path: Path) -> list[Path]:
    """The files that a config names in `_base_`; none where that cannot be told."""
    try:
        return [path.parent / base for base in Config._get_base_files(str(path)) if '::' not in base]
    except Exception:  # the config itself cannot be read, which its reader says
        return []


def _listing(folder: Path, wanted: str = '', alone: bool = False) -> str:
    """The configs of a folder that are named most like `wanted`, else some; also the package's where it is `alone`."""
    configs = sorted(path.name for path in folder.glob('*.py'))
    near = difflib.get_close_matches(wanted, [*configs, *library()] if alone else configs)
    found = 'there are' if alone and near else f'{folder} has'
    return (f'{found} {shorten(near or configs, 5) or "no config"}'
            + '; `mmflatten models` lists those of the package' * (alone or not configs))
