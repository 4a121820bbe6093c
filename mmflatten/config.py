"""Configs: those of the package, reading with errors that name the file, their text, and models
built from them.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import difflib
import functools
import math
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, DistributionFinder, distributions
from pathlib import Path
from pprint import PrettyPrinter
from typing import TYPE_CHECKING, Any

import yaml
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope

from mmflatten.deprecation import current_name
from mmflatten.text import shorten
from mmflatten.untrusted.files import problem_of
from mmflatten.untrusted.local_backend import register_regular_files

if TYPE_CHECKING:  # commands that list or name models start without PyTorch
    from torch import nn

INDEX = 'model-index.yml'
_EVERYTHING = DistributionFinder.Context()


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
        if not isinstance(item, float):
            return super().format(item, *state)
        number = float(item)  # of NumPy's types too
        text = repr(number) if math.isfinite(number) else f"float('{number}')"
        return text, True, False


def config_text(cfg: Config) -> str:
    """Return the Python text of a config, with all that it inherits."""
    fields = cfg.to_dict()
    invalid = [name for name in fields if not str(name).isidentifier()]
    if invalid:
        raise ConfigError(
            f'config {cfg.filename}: expected names of Python as fields, got {invalid[0]!r:.100}.'
        )
    printer = _Printer(width=110, sort_dicts=False)
    lines = [f'{name} = {printer.pformat(value)}\n' for name, value in fields.items()]
    return python_text(''.join(lines))


def python_text(text: str) -> str:
    """Escape `{{` in the strings of a config's text.

    MMEngine replaces `{{$NAME:default}}`, `{{ fileBasename }}` and `{{ _base_.name }}` as text
    before it runs a config, so that a class name could otherwise end its string and run as code.
    """
    return text.replace('{{', r'{\x7b')


class ConfigOptions(argparse.Action):
    """Action of `--cfg-options KEY=VALUE ...`, whose values `option_value` reads; an invalid word
    is an argparse error.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Sequence[str],
        option_string: Any = None,
    ) -> None:
        options = dict(getattr(namespace, self.dest, None) or {})
        for word in values:
            key, equals, text = word.partition('=')
            if not key or not equals:
                parser.error(
                    f'argument {option_string}: {word!r} must be KEY=VALUE, such as'
                    ' train_cfg.max_epochs=3'
                )
            try:
                options[key] = option_value(text)
            except ValueError as error:
                parser.error(f'argument {option_string}: {key}: {error} Or set {key}.type=...')
        setattr(namespace, self.dest, options)


def option_value(text: str) -> Any:
    """Read the value of an option: a Python literal, a list of values separated by commas, or text.

    Names in a list need no quotes, `[a, b c]`. Blanks inside a value are kept; MMEngine removes
    them. A comma outside of brackets makes a list, `1,2`, unless the text is quoted.

    Raises:
        ValueError: brackets that do not match, or a dictionary that is not a literal.
    """
    stripped = text.strip()
    try:
        literal = ast.literal_eval(stripped)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _value_without_quotes(text, stripped)
    if isinstance(literal, tuple) and not stripped.startswith('('):
        return list(literal)
    # Python reads the text `1j` as a complex number and `{1}` as a set, which no field has.
    is_field = literal is None or isinstance(literal, (str, int, float, list, tuple, dict))
    return literal if is_field else text


def _value_without_quotes(text: str, stripped: str) -> Any:
    """Read what is not a literal: text, a number as in `08`, `true`, or a sequence of such."""
    pairs = {'(': ')', '[': ']'}
    closing = pairs.get(stripped[:1])
    is_sequence = closing is not None and stripped.endswith(closing)
    if stripped.startswith(('{', 'dict(')) or (is_sequence and '{' in stripped):
        raise ValueError(
            f"expected a dictionary such as {{'type': 'BN'}}, got {stripped}. Quote names in it and"
            ' the whole word.'
        )
    inside = stripped[1:-1] if is_sequence else stripped
    if not is_sequence and ',' not in stripped:
        return _number_or_text(text)
    values = [option_value(item.strip()) for item in _split_at_commas(inside)]
    return tuple(values) if closing == ')' else values


def _number_or_text(text: str) -> Any:
    """Read what Python has no literal for: `08`, `inf` and `true`."""
    truths = {'true': True, 'false': False}
    if text.strip().lower() in truths:
        return truths[text.strip().lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def _split_at_commas(text: str) -> list[str]:
    """Split text at the commas outside of brackets and quotes; an empty last item is left out.

    Raises ValueError for brackets that do not match.
    """
    closing = {'(': ')', '[': ']'}
    open_brackets: list[str] = []
    quote = ''
    items = ['']
    for char in text:
        if char == ',' and not open_brackets and not quote:
            items.append('')
            continue
        starts_text = not items[-1].strip(' [(') or items[-1].rstrip().endswith(',')
        items[-1] += char
        if quote:
            quote = '' if char == quote else quote
        elif char in '\'"' and starts_text:
            quote = char
        elif char in closing:
            open_brackets.append(char)
        elif char in closing.values():
            _close(open_brackets, closing, char)
    if open_brackets:
        raise ValueError(f'expected a closing bracket in {text}. Quote text with brackets.')
    return items[:-1] if not items[-1].strip() else items


def _close(open_brackets: list[str], closing: dict[str, str], bracket: str) -> None:
    """Remove the last open bracket, which must match."""
    if not open_brackets or closing[open_brackets.pop()] != bracket:
        raise ValueError(f'expected matching brackets, got a {bracket}. Quote text with brackets.')


def config_file(path: str) -> str:
    """Return the path of a config, which is named by its path here, by its path in a checkout, or
    by its name alone.

    Raises:
        ConfigError: `path` is a folder, a pipe, a broken link or the like.
        FileNotFoundError: there is no such config. The message lists similar names.
    """
    place = Path(path)
    if place.is_dir():
        raise ConfigError(f'config {path} is a folder. {_similar(place)}')
    for file in (place, library_root() / path):
        if file.is_file():
            return str(file)
    is_name = '/' not in path
    entry = library().get(place.stem if path.endswith('.py') else path, {})
    if is_name and 'Config' in entry:
        file = library_root() / entry['Config']
        if file.is_file():
            return str(file)
    if os.path.lexists(place):
        raise ConfigError(f'config {path} {problem_of(place)}. Name a file.')
    name = place.name.removesuffix('.py')
    current = current_name('config', name)
    if current != name:
        return config_file(current)
    similar = _similar(place.parent, place.name, in_package=is_name)
    raise FileNotFoundError(f'config {path} does not exist. {similar}')


@contextlib.contextmanager
def importable(*folders: Path) -> Iterator[None]:
    """Let Python also find modules in folders, after all other places."""
    before = list(sys.path)
    sys.path += [str(folder.resolve()) for folder in folders]
    try:
        yield
    finally:
        sys.path[:] = before


class Continuations(DistributionFinder):
    """Finds `onedl-NAME`, the maintained continuation, where OpenMMLab's `NAME` is not installed.

    MMEngine looks up the distribution `mmsegmentation` for the base `mmseg::FOLDER/CONFIG.py`.
    """

    def find_distributions(
        self, context: DistributionFinder.Context = _EVERYTHING
    ) -> Iterator[Distribution]:
        if context.name and context.name.startswith('mm'):
            yield from distributions(name=f'onedl-{context.name}')

    def find_spec(self, *args: Any) -> None:
        """Find no modules: the continuations keep the names of the modules."""


@contextlib.contextmanager
def continuations_of_openmmlab() -> Iterator[None]:
    """Let Python's package metadata also find the continuations under OpenMMLab's names, after all
    other packages.
    """
    finder = Continuations()
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def read_config(path: str) -> ReadableConfig:
    """Read a config as `Config.fromfile` does.

    `custom_imports` may name modules in the folder of the config and in the working folder. A base
    such as `mmseg::mask2former/NAME.py` is the config of an installed package of OpenMMLab or of
    its continuation.

    Raises:
        FileNotFoundError: there is no such config.
        ConfigError: the config, or a file that it inherits from, cannot be read. The message names
            the file.
    """
    from mmflatten.checkpoints.loading import register_reader  # imports mmengine.runner

    register_reader()
    register_regular_files()
    path = config_file(path)
    _require_no_cycle(path, [])
    try:
        with importable(Path(path).parent, Path()), continuations_of_openmmlab():
            cfg = ReadableConfig.__new__(ReadableConfig)
            cfg.__setstate__(Config.fromfile(path).__getstate__())
            return cfg
    except Exception as error:
        module = _missing_custom_import(error)
        if module is not None:
            raise ConfigError(
                f'config {path}: custom_imports: there is no module {module}. Put it beside'
                ' the config or into the working folder, or set PYTHONPATH.'
            ) from error
        # The cause may be in one of the files that it inherits from.
        for base in _bases(path):
            if not base.is_file():
                raise ConfigError(
                    f'config {path} inherits from {base}, which does not exist. Fix _base_.'
                ) from error
            read_config(str(base))
        raise ConfigError(
            f'config {path}{_line_in(path, error)} cannot be read: {type(error).__name__}: '
            f'{str(error) or "it may not be a config"}'
        ) from error


def _require_no_cycle(path: str | Path, heirs: Sequence[str]) -> None:
    """Raise ConfigError if a config inherits from itself, on which MMEngine would recurse.

    Args:
        heirs: configs that inherit from it, from the one that is read on.
    """
    chain = [*heirs, os.path.realpath(path)]
    if chain[-1] in heirs:
        raise ConfigError(
            f'config {chain[0]}: _base_: inherits from itself, {" -> ".join(chain)}. Remove one of'
            ' these bases.'
        )
    for base in _bases(str(path)):
        if base.is_file():
            _require_no_cycle(base, chain)


def _missing_custom_import(error: BaseException) -> str | None:
    """Return the module that `custom_imports` cannot import, None if that is not the problem."""
    if 'custom modules' not in str(error):
        return None
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ModuleNotFoundError):
        cause = cause.__cause__ or cause.__context__
    return None if cause is None else str(cause.name)


def _bases(path: str) -> list[Path]:
    """Return the files that a config inherits from, without those of other packages."""
    try:
        names = Config._get_base_files(path)
    except Exception:  # the config cannot be parsed
        return []
    return [Path(path).parent / name for name in names if '::' not in name]


def _line_in(path: str, error: BaseException) -> str:
    """Return the last line of a config that an error has passed, as ', line 3'; '' if none."""
    entries = traceback.extract_tb(error.__traceback__)
    lines = [f', line {entry.lineno}' for entry in entries if entry.filename == path]
    return lines[-1] if lines else ''


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
    root = library_root()
    index = root / INDEX
    if not index.is_file():
        return {}
    entries = {}
    for file in _read_yaml(index)['Import']:
        for model in _read_yaml(root / file)['Models']:
            entries[model['Name']] = model
    return entries


def _read_yaml(path: Path) -> Any:
    # libyaml's loader, where PyYAML has it, takes a sixth of the time: a second for all files.
    loader = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)
    return yaml.load(path.read_text(encoding='utf-8'), loader)


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
    from mmflatten.checkpoints.loading import register_reader  # imports mmengine.runner

    register_reader()
    with DefaultScope.overwrite_default_scope(cfg.get('default_scope', 'mmengine')):
        return MODELS.build(model_config(cfg))
