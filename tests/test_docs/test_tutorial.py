"""The cells of the tutorial, run in order: on few images and for one epoch, or as printed.

The cells are those of docs/tutorial.ipynb, which is written from docs/tutorial.md.
"""

import importlib
import json
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
from tutorial_notebook import render

from mmflatten.registry import MODELS

ROOT = Path(__file__).parents[2]
LOADERS = [
    'train_dataloader.num_workers=0',
    'train_dataloader.persistent_workers=False',
    'val_dataloader.num_workers=0',
    'val_dataloader.persistent_workers=False',
    'test_dataloader.num_workers=0',
    'test_dataloader.persistent_workers=False',
]
REDUCED = {
    'data': ['--train', '4', '--val', '2'],
    'train': [
        '--cfg-options',
        'train_cfg.max_epochs=1',
        'train_cfg.val_interval=1',
        'train_dataloader.batch_size=8',
        *LOADERS,
    ],
    'test': ['--cfg-options', *LOADERS[-2:]],
    'report': ['--images', '2'],
}


NOTEBOOK = ROOT / 'docs' / 'tutorial.ipynb'
FILES = ['hydra.py', 'my_attention.py', 'mine.py']


def page() -> str:
    return (ROOT / 'docs' / 'tutorial.md').read_text(encoding='utf-8')


def cells() -> list[tuple[str, str]]:
    """Code of each cell of the notebook, and the output that the page shows after it."""
    found = []
    for cell in json.loads(NOTEBOOK.read_text(encoding='utf-8'))['cells']:
        text = ''.join(cell['source'])
        if cell['cell_type'] == 'code':
            found.append((text, ''))
        elif text.startswith('```\n'):
            code, _ = found.pop()
            found.append((code, text.split('```')[1]))
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A working folder with the configs and tools of the repository."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'configs').symlink_to(ROOT / 'configs')
    yield tmp_path
    sys.modules.pop('my_attention', None)
    MODELS.module_dict.pop('MyAttention', None)


def run(line: str, monkeypatch, reduced: bool) -> None:
    """Run a line of the page in this process."""
    line = re.sub(r'\$\(cat (\S+)\)', lambda match: Path(match[1]).read_text().strip(), line)
    program, *words = shlex.split(line)
    if program == 'python':
        monkeypatch.setattr(sys, 'argv', words)
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(ROOT / words[0]), run_name='__main__')
        assert not end.value.code, line
        return
    assert program == 'mmflatten', line
    command, *words = words
    if reduced:
        crop = next(Path('data').rglob('crops/val/*/*.png'), None)
        words = [str(crop) if word.startswith('data/digits/crops/') else word for word in words]
        words += REDUCED.get(command, [])
    module = importlib.import_module(f'mmflatten.cli.{command}')
    assert not module.main(words), line


def check_output(shown: str, printed: str, band: float | None) -> None:
    """Compare the rows of a table on the page with those of the output.

    Args:
        band: largest difference of an accuracy; None compares its name alone.
    """
    rows = {}
    for words in map(str.split, printed.splitlines()):
        rows[words[0] if words else ''] = words[1:]
    for name, *words in map(str.split, shown.strip().splitlines()):
        if name == '...' or set(name) == {'-'}:
            continue
        found = rows[name]
        if name.startswith('accuracy/'):
            for ours, theirs in zip(map(float, words[:2]), map(float, found[:2]), strict=True):
                assert band is None or abs(ours - theirs) <= band, (name, theirs)
            continue
        before = words.index('...') if '...' in words else len(words)
        after = words[before + 1 :]
        assert found[:before] == words[:before]
        assert ' '.join(after) in ' '.join(found[before:])


@pytest.mark.parametrize('reduced', [True, pytest.param(False, marks=pytest.mark.full)])
def test_cells_of_the_tutorial_run_in_order(folder, monkeypatch, capsys, reduced):
    (band,) = re.findall(r'Expect accuracies within (\d+)\s+points', page())
    (change_folder, _), *rest = cells()
    assert change_folder == '%cd ..'
    written, compared = [], ''
    for code, shown in rest:
        magic, _, body = code.partition('\n')
        if magic.startswith('%%writefile '):
            written.append(magic.split()[1])
            Path(written[-1]).write_text(body, encoding='utf-8')
            continue
        assert magic == '%%bash'
        for line in body.splitlines():
            run(line, monkeypatch, reduced)
            printed = capsys.readouterr().out
            compared = printed if 'compare_runs' in line else compared
        check_output(shown, printed, None if reduced else float(band))
    assert written == FILES
    for name in ('flatten-swin-nano_digits', 'hydra', 'mine', 's per iteration'):
        assert name in compared
    assert list(Path('attention').glob('00_*.png'))
    assert Path('comparison.html').stat().st_size > 100_000


def test_notebook_is_that_of_the_page():
    assert NOTEBOOK.read_text(encoding='utf-8') == render(page())


def test_cells_are_the_blocks_of_the_page():
    """Each file and command of the page, as printed."""
    blocks = re.findall(r'```(?:python|shell)\n(.*?)\n```', page(), re.DOTALL)
    assert blocks[0] == 'make setup\nsource .venv/bin/activate'
    code = [code.partition('\n')[2] for code, _ in cells()[1:]]
    assert code == blocks[1:]
