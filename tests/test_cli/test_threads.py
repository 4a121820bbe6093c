"""Threads that wait: what OpenMP is told by the commands, before PyTorch loads it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mmflatten.console import command_line

REPOSITORY = Path(__file__).parents[2]
TRAIN = {'mmflatten': ['-m', 'mmflatten', 'train'], 'tools/train.py': ['tools/train.py']}
CONVERT = {
    'mmflatten': ['-m', 'mmflatten', 'convert'],
    'tools/convert_checkpoint.py': ['tools/convert_checkpoint.py'],
}
TOOLS = REPOSITORY / 'tools'
FILES = [*TOOLS.glob('*.py'), *TOOLS.glob('analysis/*.py'), *TOOLS.glob('dataset/*.py')]
SCRIPTS = sorted(path.relative_to(REPOSITORY).as_posix() for path in FILES)
# A config is a program. This one starts a child, then lacks everything that a training needs.
CONFIG = """
import os
import subprocess
subprocess.run(['sh', '-c', 'env > "$0"', '{seen}'], check=True)
del os, subprocess
"""


def run(words: list[str], **settings: str) -> subprocess.CompletedProcess:
    """Run Python with `settings` as the only variables of OpenMP and MKL."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(('OMP_', 'GOMP_', 'MKL_'))
    }
    environment |= {**settings, 'PYTHONPATH': str(REPOSITORY)}
    return subprocess.run(
        [sys.executable, *words], env=environment, cwd=REPOSITORY, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    'command', ['mmflatten', pytest.param('tools/train.py', marks=pytest.mark.full)]
)
def test_a_child_sees_a_passive_policy(command, tmp_path):
    config, seen = tmp_path / 'config.py', tmp_path / 'seen'
    config.write_text(CONFIG.format(seen=seen))
    assert run([*TRAIN[command], str(config)]).returncode == 1
    lines = dict(line.partition('=')[::2] for line in seen.read_text().splitlines())
    found = {
        name: value for name, value in lines.items() if name.startswith(('OMP_', 'GOMP_', 'MKL_'))
    }
    assert found == dict(OMP_WAIT_POLICY='PASSIVE', GOMP_SPINCOUNT='1000')


@pytest.mark.parametrize(
    'settings',
    [
        dict(OMP_NUM_THREADS='3', OMP_WAIT_POLICY='ACTIVE', MKL_NUM_THREADS='2'),
        dict(GOMP_SPINCOUNT='7'),
    ],
)
def test_a_command_keeps_what_the_user_set(settings, monkeypatch):
    for name in list(os.environ):
        if name.startswith(('OMP_', 'GOMP_', 'MKL_')):
            monkeypatch.delenv(name)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    seen = {}
    command_line(lambda argv: seen.update(os.environ))([])
    found = {
        name: value for name, value in seen.items() if name.startswith(('OMP_', 'GOMP_', 'MKL_'))
    }
    assert found == settings


@pytest.mark.parametrize(
    'command, settings, spins',
    [
        ('mmflatten', {}, '1000'),
        ('tools/convert_checkpoint.py', dict(OMP_WAIT_POLICY='ACTIVE'), '30000000000'),
    ],
)
def test_openmp_reads_the_policy_when_it_is_loaded(command, settings, spins):
    """GNU's OpenMP prints what it has read when it is loaded."""
    printed = run([*CONVERT[command], '--help'], OMP_DISPLAY_ENV='VERBOSE', **settings).stderr
    count = re.search(r"GOMP_SPINCOUNT = '(.*)'", printed)
    assert count[1] == spins


@pytest.mark.parametrize('script', SCRIPTS)
def test_scripts_do_not_import_pytorch_before_they_run(script):
    probe = (
        f'import runpy, sys; runpy.run_path({script!r}, run_name="script"); sys.exit("torch" in'
        ' sys.modules)'
    )
    assert run(['-c', probe]).returncode == 0
