"""The table of plain ViTs over the resolution: measured cell by cell, rendered from CSV."""

import shutil
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
import torch
from matplotlib.image import imread

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / 'docs' / 'measurements' / 'plain_vit.md'
QUICK = '--archs tiny --sizes 64 --modes inference --dtypes fp32 --threads 1 --rounds 1'.split()


@pytest.fixture(scope='module')
def tool(load_tool) -> ModuleType:
    return load_tool('plain_vit')


@pytest.fixture(autouse=True)
def same_threads():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_a_repeated_call_measures_what_is_missing(tool, tmp_path):
    file = tmp_path / 'speed.csv'
    assert not tool.main(['measure', str(file), *QUICK, '--mixers', 'ReLU', 'windows'])
    first = pd.read_csv(file)
    assert list(first.mixer) == ['softmax', 'ReLU', 'windows']
    assert not tool.main(['measure', str(file), *QUICK, '--mixers', 'windows', 'InLine'])
    both = pd.read_csv(file)
    assert list(both.mixer) == ['softmax', 'ReLU', 'windows', 'InLine']
    pd.testing.assert_frame_equal(both.iloc[:3], first)
    # 4 x 4 patches of 192 channels, and the products of the linear attention
    assert both.ceiling[1] == pytest.approx(1 + 16 / (6 * 192), rel=0.02)
    assert (both.peak_mib > 0).all()


def test_unknown_mixers_are_named(tool, tmp_path, capsys):
    assert tool.main(['measure', str(tmp_path / 'x.csv'), '--mixers', 'mamba']) == 1
    assert '--mixers' in capsys.readouterr().err


def test_ceilings_count_the_arithmetic_of_every_mixer(tool):
    """ViT-S at 448 x 448: 784 tokens of 384 channels, four windows of 14 x 14."""
    found = tool.ceilings(['softmax', 'windows', 'ReLU', 'MALA'], arch='small', size=448)
    tokens, channels = 28**2, 384
    softmax = 12 * channels + 2 * tokens
    windows = 12 * channels + (2 * tokens + 2 * 2 * 14**2) / 3
    gated = 13 * channels  # the gate of MALA is one more projection
    assert found['softmax'] == 1
    assert found['windows'] == pytest.approx(softmax / windows, rel=0.04)
    assert found['ReLU'] == pytest.approx(tool.rule(tokens, channels), rel=0.04)
    assert found['MALA'] == pytest.approx(softmax / gated, rel=0.04)


def test_page_has_the_tables_of_its_csv_files(tool, tmp_path):
    for path in PAGE.parent.glob('plain_vit*'):
        shutil.copy(path, tmp_path)
    page = tmp_path / PAGE.name
    before, begin, rest = page.read_text().partition(tool.BEGIN)
    page.write_text(before + begin + tool.END + rest.partition(tool.END)[2])
    assert not tool.main(['render', str(page), '--picture', str(tmp_path / 'speed.png')])
    assert page.read_text() == PAGE.read_text()
    assert imread(tmp_path / 'speed.png').shape[:2] == (360, 640)
