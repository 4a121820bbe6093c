"""Configs: those of the package, reading with errors that name the file, their text, and models
built from them.
"""

import argparse
import ast
import contextlib
import copy
import difflib
import functools
import math
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from pprint import PrettyPrinter
from typing import Any

import yaml
from mmengine.config import Config, DictAction
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from mmflatten.text import shorten

INDEX = 'model-index.yml'


class ConfigError(ValueError):
    """A file is not a config, or a field of the config is missing."""


class ReadableConfig(Config):
    """A config whose text, as in dumps and logs, reads back equal whatever its strings contain."""

    @property
    def pretty_text(self) -> str:
        return config_text(self)


class _Printer(PrettyPrinter):
    """Printer of Python literals that can be read back, also for infinity and numbers of NumPy."""

    def format(self, item: Any, *state: Any) -> tuple[str, bool, bool]:
        if isinstance(item, float):
            return (
                (repr(float(item)) if math.isfinite(item) else f"float('{float(item)}')"),
                True,
                False,
            )
        return super().format(item, *state)


def config_text(cfg: Config) -> str:
    """Return the Python text of a config, with all that it inherits."""
    fields = cfg.to_dict()
    if invalid := [name for name in fields if not str(name).isidentifier()]:
        raise ConfigError(
            f'config {cfg.filename}: expected names of Python as fields, got {invalid[0]!r:.100}.'
        )
    printer = _Printer(width=110, sort_dicts=False)
    return python_text(
        ''.join(f'{name} = {printer.pformat(value)}\n' for name, value in fields.items())
    )


def python_text(text: str) -> str:
    """Escape `{{` in the strings of a config's text.

    MMEngine replaces `{{$NAME:default}}`, `{{ fileBasename }}` and `{{ _base_.name }}` as text
    before it runs a config, so that a class name could otherwise end its string and run as code.
    """
    return text.replace('{{', r'{\x7b')


class ConfigOptions(DictAction):
    """Action of `--cfg-options KEY=VALUE ...`; a word without `=` is an argparse error."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Sequence[str],
        option_string: Any = None,
    ) -> None:
        for word in values:
            if not word.partition('=')[0] or '=' not in word:
                parser.error(
                    f'argument {option_string}: {word!r} must be KEY=VALUE, such as'
                    ' train_cfg.max_epochs=3'
                )
        literals = {}  # MMEngine reads dictionaries as text
        for key, _, text in (
            word.partition('=') for word in values if '{' in word or '=dict(' in word
        ):
            try:
                literals[key] = ast.literal_eval(text)
            except (ValueError, SyntaxError):
                parser.error(
                    f"argument {option_string}: {key}: expected a dictionary such as {{'type':"
                    f" 'BN'}}, got {text}. Write {key}.type=... or quote the whole word."
                )
        super().__call__(
            parser,
            namespace,
            [word for word in values if word.partition('=')[0] not in literals],
            option_string,
        )
        getattr(namespace, self.dest).update(literals)


def config_file(path: str) -> str:
    """Return the path of a config, which is named by its path here, by its path in a checkout, or
    by its name alone.

    Raises:
        ConfigError: `path` is a folder.
        FileNotFoundError: there is no such config. The message lists similar names.
    """
    place = Path(path)
    if place.is_dir():
        raise ConfigError(f'config {path} is a folder. {_similar(place)}')
    entry = library().get(place.stem if path.endswith('.py') else path, {})
    places = (place, library_root() / path, library_root() / entry.get('Config', '-'))
    found = next((file for file in places[: 3 if '/' not in path else 2] if file.is_file()), None)
    if found is None:
        similar = _similar(place.parent, place.name, in_package='/' not in path)
        raise FileNotFoundError(f'config {path} does not exist. {similar}')
    return str(found)


@contextlib.contextmanager
def importable(*folders: Path) -> Iterator[None]:
    """Let Python also find modules in folders, after all other places."""
    before = list(sys.path)
    sys.path += [str(folder.resolve()) for folder in folders]
    try:
        yield
    finally:
        sys.path[:] = before


def read_config(path: str) -> ReadableConfig:
    """Read a config as `Config.fromfile` does.

    `custom_imports` may name modules in the folder of the config and in the working folder.

    Raises:
        FileNotFoundError: there is no such config.
        ConfigError: the config, or a file that it inherits from, cannot be read. The message names
            the file.
    """
    from mmflatten import local_files  # noqa: F401 registers the reading of regular files alone

    path = config_file(path)
    try:
        with importable(Path(path).parent, Path()):
            cfg = ReadableConfig.__new__(ReadableConfig)
            cfg.__setstate__(Config.fromfile(path).__getstate__())
            return cfg
    except Exception as error:
        missing: BaseException | None = error if 'custom modules' in str(error) else None
        while missing is not None and not isinstance(missing, ModuleNotFoundError):
            missing = missing.__cause__ or missing.__context__
        if missing is not None:
            raise ConfigError(
                f'config {path}: custom_imports: there is no module {missing.name}. Put it beside'
                ' the config or into the working folder, or set PYTHONPATH.'
            ) from error
        try:  # the cause may be in one of the files that it inherits from
            bases = [
                Path(path).parent / base
                for base in Config._get_base_files(path)
                if '::' not in base
            ]
        except Exception:  # it cannot be parsed
            bases = []
        for base in bases:
            if not base.is_file():
                raise ConfigError(
                    f'config {path} inherits from {base}, which does not exist. Fix _base_.'
                ) from error
            read_config(str(base))
        line = ''.join(
            [
                f', line {entry.lineno}'
                for entry in traceback.extract_tb(error.__traceback__)
                if entry.filename == path
            ][-1:]
        )
        raise ConfigError(
            f'config {path}{line} cannot be read: {type(error).__name__}: '
            f'{str(error) or "it may not be a config"}'
        ) from error


def require_parts(cfg: Config, *names: str) -> None:
    """Raise ConfigError if one of the fields `names` is missing in a config."""
    missing = [name for name in names if cfg.get(name) is None]
    if missing:
        raise ConfigError(
            f'config {cfg.filename} has no {", ".join(missing)}. Files of configs/_base_ are parts'
            ' of configs: use a config that inherits from it, or add the missing fields.'
        )


def _similar(folder: Path, name: str = '', in_package: bool = False) -> str:
    """Return a sentence that lists configs with names similar to `name`, or else some configs of
    the folder.
    """
    configs = sorted(path.name for path in folder.glob('*.py'))
    similar = difflib.get_close_matches(name, [*configs, *library()] if in_package else configs)
    where = 'Similar names are' if in_package and similar else f'{folder} has'
    text = f'{where} {shorten(similar or configs, 5) or "no configs"}.'
    if in_package or not configs:
        text += ' `mmflatten models` lists the configs of the package.'
    return text


def library_root() -> Path:
    """Folder that holds `configs/` and the model index: `.mim` in an installed package, else the
    checkout.
    """
    package = Path(__file__).resolve().parent
    installed = package / '.mim'
    return installed if installed.is_dir() else package.parent


@functools.cache
def library() -> dict[str, dict]:
    """Every config's entry of the metafiles, by its name: `Config`, `Metadata`, `Results`."""
    root, entries = library_root(), {}
    index = root / INDEX
    if index.is_file():
        for file in yaml.safe_load(index.read_text(encoding='utf-8'))['Import']:
            for model in yaml.safe_load((root / file).read_text(encoding='utf-8'))['Models']:
                entries[model['Name']] = model
    return entries


def model_config(cfg: Config) -> dict:
    """Return the config's `model` as the Runner builds it, with the config's `data_preprocessor`
    inside.
    """
    model = copy.deepcopy(cfg.model)
    if cfg.get('data_preprocessor') is not None:
        model.setdefault('data_preprocessor', copy.deepcopy(cfg.data_preprocessor))
    return model


def build_model(cfg: Config) -> nn.Module:
    """Build the config's model in the scope of its library."""
    from mmflatten.checkpoints import loading  # noqa: F401 registers the safe reading of weights

    with DefaultScope.overwrite_default_scope(cfg.get('default_scope', 'mmengine')):
        return MODELS.build(model_config(cfg))
