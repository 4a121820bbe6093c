"""OpenMMLab's own scripts, to run unmodified on models of mmflatten."""
import importlib
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib
import pytest


@pytest.fixture
def script(monkeypatch) -> Callable[..., None]:
    """Function that runs a script of an installed library, named by its place in the library's `.mim/tools`."""
    matplotlib.use('Agg', force=True)

    def run(library: str, name: str, *arguments: object) -> None:
        tools = Path(importlib.import_module(library).__file__).parent / '.mim' / 'tools'
        monkeypatch.setattr(sys, 'argv', [name, *map(str, arguments)])
        monkeypatch.syspath_prepend(str(tools.parent))
        monkeypatch.setenv('LOCAL_RANK', '0')
        runpy.run_path(str(tools / name), run_name='__main__')

    return run
