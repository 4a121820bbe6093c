"""The public modules, those with a page under docs/api, are typed for others, as `py.typed`
states.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
USE = """
from typing import assert_type
import torch
from mmflatten.apis import list_models
from mmflatten.models.attention import TokenMixer, build_mixer
from mmflatten.ops import linear_attention

x = torch.rand(1, 2, 4, 8)
assert_type(linear_attention(x, x, x), torch.Tensor)
assert_type(list_models('flatten*'), list[str])
mixer = build_mixer(dict(type='LinearAttention'), embed_dims=8, num_heads=2, grid_size=(2, 2))
assert_type(mixer, TokenMixer)
list_models(3)
"""


def public_files() -> list[Path]:
    pages = ''.join(
        page.read_text(encoding='utf-8') for page in (ROOT / 'docs' / 'api').glob('*.md')
    )
    found = []
    for name in re.findall(r'^::: (mmflatten[\w.]+)', pages, re.MULTILINE):
        path = ROOT / name.replace('.', '/')
        if path.is_dir():
            found += sorted(path.glob('*.py'))
        else:
            found += [
                file
                for file in (path.with_suffix('.py'), path.parent.with_suffix('.py'))
                if file.is_file()
            ][:1]
    return found


def without_types(file: Path) -> list[str]:
    """Public functions with a parameter (other than the `**kwargs` that are passed on) or a result
    without a type.
    """
    missing = []
    for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
        if isinstance(node, ast.FunctionDef) and (
            not node.name.startswith('_') or node.name == '__init__'
        ):
            given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            untyped = [
                item.arg
                for item in given
                if item.annotation is None and item.arg not in ('self', 'cls')
            ]
            if untyped or node.returns is None:
                missing.append(f'{file.name}:{node.lineno} {node.name} {untyped}')
    return missing


def test_public_functions_state_their_types():
    files = public_files()
    names = {file.name for file in files}
    assert {'linear.py', 'predictor.py', 'registry.py', 'classifier.py'} <= names
    missing = []
    for file in files:
        missing += without_types(file)
    assert missing == []


@pytest.mark.full
def test_mypy_knows_the_types_of_an_installed_mmflatten(tmp_path):
    """Without `py.typed` mypy would ignore the types and report the import instead of the wrong
    argument.
    """
    target = tmp_path / 'installed'
    subprocess.run(
        [
            sys.executable,
            '-m',
            'pip',
            '-q',
            'install',
            '--no-index',
            '--no-deps',
            '--no-build-isolation',
            '--target',
            target,
            ROOT,
        ],
        check=True,
    )
    file = tmp_path / 'use.py'
    file.write_text(USE)
    packages = tmp_path / 'env' / 'lib' / f'python3.{sys.version_info.minor}' / 'site-packages'
    subprocess.run([sys.executable, '-m', 'venv', '--without-pip', tmp_path / 'env'], check=True)
    (packages / 'libraries.pth').write_text(f'{target}\n{Path(pytest.__file__).parents[1]}\n')
    done = subprocess.run(
        [
            sys.executable,
            '-m',
            'mypy',
            '--python-executable',
            tmp_path / 'env' / 'bin' / 'python',
            '--follow-imports',
            'silent',
            '--cache-dir',
            tmp_path / 'cache',
            file,
        ],
        cwd=tmp_path,
        text=True,
        capture_output=True,
    )
    (line,) = (line for line in done.stdout.splitlines() if 'error' in line and 'use.py' in line)
    assert '[arg-type]' in line and 'list_models' in line, done.stdout
