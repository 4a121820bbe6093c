"""The files and commands of docs/tutorial.md, run in order on few images and for one epoch."""

import importlib
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest

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


def page() -> str:
    return (ROOT / 'docs' / 'tutorial.md').read_text(encoding='utf-8')


def commands() -> list[str]:
    lines = []
    for block in re.findall(r'```shell\n(.*?)```', page(), re.DOTALL):
        lines += block.splitlines()
    return lines


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A working folder with the configs of the repository and the files of the page."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'configs').symlink_to(ROOT / 'configs')
    files = re.findall(r'`(\w+\.py)`:\n\n```python\n(.*?)```', page(), re.DOTALL)
    assert [name for name, _ in files] == ['hydra.py', 'my_attention.py', 'mine.py']
    for name, code in files:
        (tmp_path / name).write_text(code, encoding='utf-8')
    yield tmp_path
    sys.modules.pop('my_attention', None)
    MODELS.module_dict.pop('MyAttention', None)


def run(line: str, monkeypatch) -> None:
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
    crop = next(Path('data').rglob('crops/val/*/*.png'), None)
    words = [str(crop) if word.startswith('data/digits/crops/') else word for word in words]
    module = importlib.import_module(f'mmflatten.cli.{command}')
    assert not module.main([*words, *REDUCED.get(command, [])]), line


def test_tutorial_commands_run_in_order(folder, monkeypatch, capsys):
    installation, lines = commands()[:2], commands()[2:]
    assert installation == ['make setup', 'source .venv/bin/activate']
    printed = {}
    for line in lines:
        run(line, monkeypatch)
        printed[line] = capsys.readouterr().out
    counts = next(text for line, text in printed.items() if ' flops ' in line)
    for row in re.findall(r'^(\S+ +64x64 +\S+)', page(), re.MULTILINE):
        assert row in counts  # the numbers on the page
    *_, compared = (text for line, text in printed.items() if 'compare_runs' in line)
    assert all(
        name in compared for name in ('flatten-swin-nano_digits', 'hydra', 'mine', 'accuracy/top1')
    )
    assert list(Path('attention').glob('00_*.png'))
    assert Path('comparison.html').stat().st_size > 100_000
