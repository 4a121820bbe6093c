"""OpenMMLab's own scripts, to run unmodified on models of mmflatten."""

import importlib
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib
import pytest


@pytest.fixture
def script(monkeypatch) -> Callable[..., None]:
    """Function that runs a script of an installed library, named by its place in the library's
    `.mim/tools`.

    It runs in this process, which has the libraries loaded; `alone` in one of its own, for scripts
    that fork.
    """
    matplotlib.use('Agg', force=True)

    def run(library: str, name: str, *arguments: object, alone: bool = False) -> None:
        tools = Path(importlib.import_module(library).__file__).parent / '.mim' / 'tools'
        if alone:
            subprocess.run(
                [sys.executable, tools / name, *map(str, arguments)], check=True, timeout=300
            )
            return
        monkeypatch.setattr(sys, 'argv', [name, *map(str, arguments)])
        monkeypatch.syspath_prepend(str(tools.parent))
        monkeypatch.setenv('LOCAL_RANK', '0')
        runpy.run_path(str(tools / name), run_name='__main__')

    return run
