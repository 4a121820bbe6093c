"""The table of plain ViTs over the resolution: measured cell by cell, rendered from CSV."""

import shutil
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
import torch
from matplotlib.image import imread

from mmflatten.measure.flops.model_cost import count_model
from mmflatten.measure.speed.models import build_from_spec

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
    # 4 x 4 patches of 192 channels
    assert both.ceiling[1] == pytest.approx(1 + 16 / (6 * 192), rel=1e-4)
    assert (both.peak_mib > 0).all()


def test_unknown_mixers_are_named(tool, tmp_path, capsys):
    assert tool.main(['measure', str(tmp_path / 'x.csv'), '--mixers', 'mamba']) == 1
    assert '--mixers' in capsys.readouterr().err


@pytest.mark.parametrize('mixer', ['windows', 'ReLU'])
def test_ceiling_is_the_ratio_of_the_arithmetic(tool, mixer):
    """Multiply-accumulates of ViT-S, counted operation by operation at 448 x 448."""
    macs = {}
    for name in ('softmax', mixer):
        model = build_from_spec(tool.model_spec(name, arch='small', size=448), (448, 448))
        macs[name] = count_model(model.to('meta'), (448, 448)).counts.macs
    expected = macs['softmax'] / macs[mixer]
    assert tool.ceiling(mixer, tokens=28**2, channels=384) == pytest.approx(expected, rel=0.05)


def test_page_has_the_tables_of_its_csv_files(tool, tmp_path):
    for path in PAGE.parent.glob('plain_vit*'):
        shutil.copy(path, tmp_path)
    page = tmp_path / PAGE.name
    before, begin, rest = page.read_text().partition(tool.BEGIN)
    page.write_text(before + begin + tool.END + rest.partition(tool.END)[2])
    assert not tool.main(['render', str(page), '--picture', str(tmp_path / 'speed.png')])
    assert page.read_text() == PAGE.read_text()
    assert imread(tmp_path / 'speed.png').shape[:2] == (360, 640)
