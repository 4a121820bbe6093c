"""Write `docs/public_names.txt`, the list of what `docs/compatibility.md` promises to keep:

    python tools/maintain/public_names.py

A test compares the file with the code. Its difference in a commit shows what a user loses.
"""

import argparse
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import timm
import torch
from torch import nn

import mmflatten.timm
from mmflatten import apis, registry
from mmflatten.cli import main as command
from mmflatten.config import library
from mmflatten.deprecation import RENAMED
from mmflatten.models.attention import TokenMixer
from mmflatten.models.backbones.base import Backbone
from mmflatten.models.stereo.psmnet import PSMNet
from mmflatten.registry import MODELS, LazyRegistry
from mmflatten.requirements import MIXERS
from mmflatten.version import __version__

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / 'docs' / 'public_names.txt'
HEADER = """\
# Public names of mmflatten: see compatibility.md. Written by tools/maintain/public_names.py.
# Classes whose modules import a task library are listed without arguments.
# In keys of weights, # is the number of a stage, block or layer.
"""


def public_names() -> str:
    """Return the list of public names, one a line, by kind."""
    sections = {
        'Commands': commands(),
        'Configs': sorted(library()),
        'Functions of mmflatten.apis': functions(apis, apis.__all__),
        'Modules with a page under API': documented(),
        'Registered classes': registered_classes(),
        'Models of mmflatten.timm': timm_models(),
        'Groups of entry points': [command.GROUP, MIXERS],
        'Keys of weights': weight_keys(),
    }
    blocks = [HEADER]
    for title, lines in sections.items():
        blocks.append('\n'.join([f'## {title}', *lines, '']))
    return '\n'.join(blocks)


def commands() -> list[str]:
    """Return each command with its arguments, positional ones first."""
    lines = [f'{old} = {new}' for old, new in command.ALIASES.items()]
    for name in command.COMMANDS:
        lines += _arguments(name, command._load(name).parser())
    return sorted(lines)


def _arguments(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    words = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child, its_parser in action.choices.items():
                yield from _arguments(f'{name} {child}', its_parser)
        elif not action.option_strings:
            words.append(action.dest.upper())
        elif action.dest != 'help':
            words.append('/'.join(action.option_strings))
    yield ' '.join([name, *words])


def functions(module: ModuleType, names: list[str]) -> list[str]:
    return sorted(f'{name}{arguments(getattr(module, name))}' for name in names)


def arguments(thing: object) -> str:
    """Return the names of the arguments of a function or class, in the order of its signature."""
    if not callable(thing):
        return ''
    try:
        parameters = inspect.signature(thing).parameters
    except ValueError:  # a type of C
        return '(...)'
    return f'({", ".join(parameters)})'


def documented() -> list[str]:
    """Return the public names of the modules and classes that the pages under API show."""
    lines = []
    for page in sorted((ROOT / 'docs' / 'api').glob('*.md')):
        for name in re.findall(r'^::: ([\w.]+)', page.read_text(encoding='utf-8'), re.MULTILINE):
            try:
                module = importlib.import_module(name)
            except ModuleNotFoundError:  # a class
                lines.append(name)
                continue
            lines += [f'{name}.{line}' for line in functions(module, _names_of(module))]
    return sorted(set(lines))


def _names_of(module: ModuleType) -> list[str]:
    """Return `__all__`, or the public functions and classes that a module defines."""
    if hasattr(module, '__all__'):
        return list(module.__all__)
    names = []
    for name, value in vars(module).items():
        if not name.startswith('_') and getattr(value, '__module__', None) == module.__name__:
            names.append(name)
    return names


def registered_classes() -> list[str]:
    """Return the classes of the registries with their arguments.

    Other modules register parts of commands, and other packages their own classes.
    """
    lines = []
    for name, value in vars(registry).items():
        if not isinstance(value, LazyRegistry) or name.startswith('_'):
            continue
        value.import_from_location()
        lines += [f'{name} {key}' for key in value.on_demand]
        for key, found in value.module_dict.items():
            is_public = found.__module__.startswith(tuple(value._locations))
            if is_public and key not in value.on_demand:
                lines.append(f'{name} {key}{arguments(found)}')
    return sorted(lines)


def timm_models() -> list[str]:
    """Return the names of the models that `mmflatten.timm` registers."""
    module = mmflatten.timm.entrypoints.__name__.rpartition('.')[2]
    return sorted(timm.list_models(module=module))


def weight_keys() -> list[str]:
    """Return the keys of the attentions, of PSMNet, and of each backbone with default
    arguments.
    """
    lines = set()
    for name, model in _models():
        lines.update(f'{name} {_without_numbers(key)}' for key in model.state_dict())
    return sorted(lines)


def _models() -> Iterator[tuple[str, nn.Module]]:
    MODELS.import_from_location()
    for name, found in MODELS.module_dict.items():
        if not found.__module__.startswith('mmflatten.'):
            continue
        with torch.device('meta'):
            if issubclass(found, Backbone):
                yield name, found()
            elif issubclass(found, TokenMixer):
                yield name, found(16, 2, (4, 4))
    yield 'PSMNet', PSMNet()


def _without_numbers(key: str) -> str:
    return re.sub(r'\.\d+(?=\.)', '.#', key)


def ended_names(version: str) -> list[str]:
    """Return old names that a version no longer accepts, so that their entries must go."""
    ended = []
    for kind, entries in RENAMED.items():
        for name, entry in entries.items():
            if _numbers(entry.until) <= _numbers(version):
                ended.append(f'{kind} {name}')
    return ended


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r'\d+', version)[:3]]


def main() -> int:
    """Write the file, and report old names whose time has ended."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    FILE.write_text(public_names(), encoding='utf-8')
    print(FILE.relative_to(ROOT))
    ended = ended_names(__version__)
    if ended:
        print(f'mmflatten/deprecation.py: remove what {__version__} no longer accepts:', *ended)
    return 1 if ended else 0


if __name__ == '__main__':
    sys.exit(main())
