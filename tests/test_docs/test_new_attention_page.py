"""The files and commands of docs/adding_an_attention.md, on few images and for one epoch, or as
printed. `tests/test_models/test_adding_an_attention.py` trains the class in further families.
"""

import re
import sys
from pathlib import Path

import pytest

from mmflatten.registry import MODELS
from tests.test_docs.test_tutorial import ROOT, run


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A working folder with the configs of the repository, which is not on the Python path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'configs').symlink_to(ROOT / 'configs')
    yield tmp_path
    sys.modules.pop('squared_relu', None)
    MODELS.module_dict.pop('SquaredReLUAttention', None)


@pytest.mark.parametrize('reduced', [True, pytest.param(False, marks=pytest.mark.full)])
def test_page_trains_its_attention(folder, monkeypatch, reduced):
    page = (ROOT / 'docs' / 'adding_an_attention.md').read_text(encoding='utf-8')
    attention, config = re.findall(r'```python\n(.*?)```', page, re.DOTALL)
    (commands,) = re.findall(r'```shell\n(.*?)\n```', page, re.DOTALL)
    (folder / 'squared_relu.py').write_text(attention, encoding='utf-8')
    (folder / 'mine.py').write_text(config, encoding='utf-8')
    for line in commands.splitlines():
        run(line, monkeypatch, reduced=reduced)
    assert Path(Path('work_dirs/mine/last_checkpoint').read_text().strip()).is_file()
    assert 'squared_relu' in sys.modules
