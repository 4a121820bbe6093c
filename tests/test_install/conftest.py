"""Python in a new process, with modules and metadata of a test in front of the installed
libraries.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run_python(tmp_path) -> Callable[..., tuple[int, str]]:
    """Run Python with packages and metadata in `tmp_path` hiding the real ones; returns exit status
    and output.
    """

    def run(*arguments: str, python: Path | str = sys.executable) -> tuple[int, str]:
        environment = {
            **os.environ,
            'PYTHONPATH': f'{tmp_path}{os.pathsep}{ROOT}',
            'OMP_NUM_THREADS': '1',
        }
        done = subprocess.run(
            [python, *arguments],
            env=environment,
            cwd=tmp_path,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout

    return run


@pytest.fixture
def distribution(tmp_path) -> Callable[..., None]:
    """Write the metadata of an installed distribution into `tmp_path`."""

    def write(name: str, version: str, requires: str = '') -> None:
        info = tmp_path / f'{name.replace("-", "_")}-{version}.dist-info'
        info.mkdir()
        needs = f'Requires-Dist: {requires}\n' if requires else ''
        (info / 'METADATA').write_text(
            f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}'
        )

    return write
