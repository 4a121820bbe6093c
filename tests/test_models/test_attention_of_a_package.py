"""A package that adds an attention by an entry point: the class and the entry of
docs/adding_an_attention.md.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "squared-relu"
version = "1.2"
[tool.hatch.build.targets.wheel]
include = ["squared_relu.py"]
"""
USE = """
import sys, mmflatten
from mmflatten import registry
assert 'squared_relu' not in sys.modules
from mmflatten.cli.main import main
assert main(['flops', 'mine.py']) == 0
assert 'squared_relu' in sys.modules
mixer = registry.MODELS.build(
    dict(type='SquaredReLUAttention', embed_dims=8, num_heads=2, grid_size=(4, 4)))
print(type(mixer))
from mmflatten.cli import doctor
print(*sum(doctor.report_attentions(), []), sep='\\n')
"""

CONFIG = f"""
_base_ = ['{ROOT}/configs/digits/flatten-swin-nano_digits.py']
model = dict(backbone=dict(mixers=dict(L=dict(type='SquaredReLUAttention'))))
"""


@pytest.fixture(scope='module')
def installed(tmp_path_factory) -> Path:
    """The folder of the installed package. A second entry of it names a class that does not
    exist.
    """
    text = (ROOT / 'docs' / 'adding_an_attention.md').read_text(encoding='utf-8')
    blocks = re.findall(r'```(?:python|toml)\n(.*?)```', text, re.DOTALL)
    (module,) = (block for block in blocks if 'class ' in block)
    (entry,) = (block for block in blocks if 'entry-points' in block)
    sources, target = tmp_path_factory.mktemp('sources'), tmp_path_factory.mktemp('installed')
    (sources / 'squared_relu.py').write_text(module, encoding='utf-8')
    (sources / 'pyproject.toml').write_text(
        f'{PROJECT}{entry}OldAttention = "squared_relu:OldAttention"\n'
    )
    subprocess.run(
        [
            sys.executable,
            '-m',
            'pip',
            '-q',
            '--disable-pip-version-check',
            'install',
            '--no-index',
            '--no-deps',
            '--no-build-isolation',
            '--target',
            target,
            sources,
        ],
        check=True,
    )
    return target


@pytest.fixture(scope='module')
def used(installed, tmp_path_factory) -> subprocess.CompletedProcess:
    """A new process that uses the installed package."""
    folder = tmp_path_factory.mktemp('use')
    (folder / 'mine.py').write_text(CONFIG)
    environment = {
        **os.environ,
        'PYTHONPATH': f'{installed}{os.pathsep}{ROOT}',
        'OMP_NUM_THREADS': '1',
    }
    done = subprocess.run(
        [sys.executable, '-c', USE], env=environment, cwd=folder, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return done


def test_attention_of_a_package_is_found_by_name_and_a_broken_one_is_one_line(used):
    assert 'squared_relu.SquaredReLUAttention' in used.stdout.splitlines()[-4]
    (line,) = (line for line in used.stderr.splitlines() if 'OldAttention' in line)
    assert 'squared-relu 1.2' in line and 'AttributeError' in line


def test_doctor_lists_attentions_of_packages(used):
    *rows, note = used.stdout.splitlines()[-3:]
    assert sorted(row.split()[:2] for row in rows) == [
        ['OldAttention', 'broken'],
        ['SquaredReLUAttention', 'ok'],
    ]
    assert all(row.endswith('squared-relu 1.2') for row in rows)
    assert 'OldAttention of squared-relu 1.2' in note and 'AttributeError' in note
