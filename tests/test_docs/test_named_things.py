"""Commands, options, scripts, files and classes that pages, requirement files, configs and
docstrings name exist.
"""

import argparse
import importlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from mmengine.registry import Registry

from mmflatten import registry
from mmflatten.cli import main as command

ROOT = Path(__file__).parents[2]
FOLDERS = {
    'pages': (
        '*.md',
        'docs/**/*.md',
        'lab/*.md',
        'lab/docs/*.md',
        'configs/*/*.md',
        '.github/**/*.md',
    ),
    'requirement files': ('requirements/*.txt', 'docker/*', 'Makefile'),
    'configs': ('configs/**/*.py', 'lab/configs/**/*.py', 'lab/studies/*.yaml'),
    'code': (
        'mmflatten/**/*.py',
        'lab/mmflatten_lab/**/*.py',
        'lab/scripts/**/*.py',
        'tools/**/*.py',
    ),
}
EXCEPT = ('pages.py',)  # it names files of the site


def files_of(patterns: Iterable[str]) -> list[Path]:
    found = []
    for pattern in patterns:
        found += sorted(path for path in ROOT.glob(pattern) if path.name not in EXCEPT)
    return found


FILES = {kind: files_of(patterns) for kind, patterns in FOLDERS.items()}
CODE = re.compile(r'^```.*?^```|`[^`]+`', re.MULTILINE | re.DOTALL)

# `mmflatten WORD ...` in code, up to a comment or the end of a line or of inline code. The last
# words of a sentence, 'mmflatten has.', are no command.
COMMAND = re.compile(
    r'(?:(?<=`)|(?<=\$ )|(?<=&& )|^) *mmflatten ([a-z]+)\b(?!\.$)([^`\n#]*)', re.MULTILINE
)
SCRIPT = re.compile(r'python ((?:tools|lab/scripts)/[\w/]+\.py)([^`\n#;]*)')
OPTION = re.compile(r'(?<![\w-])(--[a-z][\w-]*)')
FILE = re.compile(
    r'(?<![\w/.-])(?:tools|docs|requirements|docker|lab|mmcv-torch-ops)/[\w./-]+'
    r'\.(?:py|sh|md|csv|yaml|txt|png)\b'
)
MODULE = re.compile(r'(?<![\w./-])mmflatten(?:_lab)?(?:\.[a-z]\w*)+(?:\.\w+)*')
CLASS = re.compile(r'\bmmflatten\.([A-Z]\w+)')
# a file, and groups of entry points
NO_MODULES = {'mmflatten.json', 'mmflatten.mixers', 'mmflatten.commands'}


def all_commands() -> list[str]:
    return [*command.COMMANDS, *command.LAB]


@cache
def options_of(name: str) -> set[str]:
    return options(command._load(name).parser())


def options(parser: argparse.ArgumentParser) -> set[str]:
    found = set()
    for action in parser._actions:
        found.update(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                found |= options(child)
    return found


def text_of(path: Path) -> str:
    """Return the text of a file, of a page that of its code, with commands of several lines in
    one.
    """
    text = path.read_text(encoding='utf-8')
    if path.suffix == '.md':
        text = '\n'.join(CODE.findall(text))
    return text.replace('\\\n', ' ')


def wrong_commands(text: str) -> list[str]:
    found = []
    for name, rest in COMMAND.findall(text):
        if name not in all_commands():
            found.append(f'mmflatten {name}')
            continue
        found += [
            f'mmflatten {name} {word}'
            for word in OPTION.findall(rest)
            if word not in options_of(name)
        ]
    return found


def wrong_scripts(text: str) -> list[str]:
    """Scripts that do not exist, and options whose name stands in no parser of the script or of its
    command.
    """
    found = []
    for name, rest in SCRIPT.findall(text):
        script = ROOT / name
        if not script.is_file():
            found.append(name)
            continue
        code = script.read_text(encoding='utf-8')
        for module in re.findall(r"\bscript\('(\w+)'", code):
            code += ' '.join(f"'{word}'" for word in options_of(module))
        found += [f'{name} {word}' for word in OPTION.findall(rest) if f"'{word}'" not in code]
    return found


@cache
def is_importable(name: str) -> bool:
    parts = name.split('.')
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module('.'.join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@cache
def is_registered(name: str) -> bool:
    importlib.import_module('mmflatten_lab.models')
    importlib.import_module('mmflatten_lab.datasets')
    registries = [value for value in vars(registry).values() if isinstance(value, Registry)]
    return any(found.get(name) is not None for found in registries)


@pytest.mark.parametrize('kind', FILES)
def test_named_things_exist(kind):
    wrong = {}
    for path in FILES[kind]:
        text = text_of(path)
        found = wrong_commands(text) + wrong_scripts(text)
        found += [name for name in FILE.findall(text) if not is_file(name, path)]
        if kind != 'code':  # which fails without them
            found += [
                name
                for name in MODULE.findall(text)
                if name not in NO_MODULES and not is_importable(name)
            ]
            found += [
                f'mmflatten.{name}' for name in CLASS.findall(text) if not is_registered(name)
            ]
        if found:
            wrong[path.relative_to(ROOT).as_posix()] = found
    assert wrong == {}


def is_file(name: str, page: Path) -> bool:
    """Return True for a path from the root of the repository, or from the folder of a page, as
    links are.
    """
    return (ROOT / name).is_file() or (page.parent / name).is_file()


def test_gone_things_are_found():
    assert wrong_commands(
        '`mmflatten curves x`, `mmflatten train C --nowhere`, mmflatten runs\n'
        'mmflatten test C K --out x  # --none'
    ) == ['mmflatten curves', 'mmflatten train --nowhere']
    assert wrong_scripts(
        'python tools/nothing.py; python tools/train.py C --nowhere --amp bfloat16'
    ) == ['tools/nothing.py', 'tools/train.py --nowhere']
    assert not is_importable('mmflatten.results.nothing')
    assert is_importable('mmflatten.results.curves.curve')
    assert not is_registered('Nothing') and is_registered('FLattenSwin')
