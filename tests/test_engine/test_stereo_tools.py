"""Training and testing on stereo: losses, metrics, predictions, drawings, and messages for bad
data.
"""

import json
import pickle
from pathlib import Path
from textwrap import dedent

import cv2
import numpy as np
import pytest
import torch

from mmflatten.datasets.scenes.stereo_build import StereoSceneOptions, build_stereo_scenes

DIGITS = Path(__file__).parents[2] / 'configs' / 'digits'
CONFIG = """
    _base_ = ['{digits}/psmnet-tiny-fa_digits-stereo.py']
    model = dict(max_disp=16, base_channels=4, depths=(1, 1, 1, 1), pool_sizes=(4, 2),
                 attention=dict(basis_channels=4))
    train_dataloader = dict(num_workers={workers}, persistent_workers=False,
                            dataset=dict(data_root='{data}', pipeline={pipeline}))
    val_dataloader = dict(batch_size=2, num_workers=0, persistent_workers=False,
                          dataset=dict(data_root='{data}'))
    test_dataloader = val_dataloader
    val_evaluator = dict(max_disp=16)
    test_evaluator = val_evaluator
    max_epochs = 2
    train_cfg = dict(max_epochs=max_epochs, val_interval=1)
    work_dir = '{folder}/run'
"""
PIPELINE = [
    dict(type='mmflatten.LoadStereoPair'),
    dict(type='mmflatten.LoadDisparity'),
    dict(type='mmflatten.StereoRandomCrop', crop_size=(32, 48)),
    dict(type='mmflatten.PackStereoInputs'),
]


@pytest.fixture
def stereo(tmp_path):
    """A small config with its own copy of small pairs."""
    build_stereo_scenes(tmp_path / 'data', StereoSceneOptions(train=4, val=3, size=32))
    return write_config(tmp_path)


def write_config(folder: Path, workers: int = 0) -> Path:
    config = folder / 'stereo.py'
    config.write_text(
        dedent(CONFIG).format(
            digits=DIGITS, data=folder / 'data', folder=folder, workers=workers, pipeline=PIPELINE
        )
    )
    return config


def training_file(config: Path, kind: str, side: str, name: str) -> Path:
    return config.parent / 'data' / kind / 'TRAIN' / 'A' / '0000' / side / name


def test_stereo_is_trained_tested_and_resumed(stereo, tools, capsys):
    work_dir = stereo.parent / 'run'
    assert tools.train([stereo, '--seed', 0]) == 0
    assert {'epoch_1.pth', 'epoch_2.pth'} <= {path.name for path in work_dir.iterdir()}
    drawings = sorted(path.name for path in work_dir.rglob('vis_image/*.png'))
    assert drawings == ['000000_0_1.png', '000000_0_2.png']  # of two batches the first

    out, folder = stereo.parent / 'out.pkl', stereo.parent / 'drawings'
    assert tools.test([stereo, work_dir / 'epoch_2.pth', '--out', out, '--show-dir', folder]) == 0
    metrics = json.loads(out.with_suffix('.json').read_text())['metrics']
    assert {
        'stereo/epe',
        'stereo/bad1',
        'stereo/bad3',
        'stereo/d1',
        'stereo/epe_noc',
        'stereo/epe_occ',
        'stereo/epe_mean_disparity',
    } == set(metrics)
    predictions = pickle.loads(out.read_bytes())
    assert [Path(entry['left_path']).name for entry in predictions] == [
        f'{i:06d}.png' for i in range(3)
    ]
    for entry in predictions:
        predicted = entry['pred_disparity']['data']
        assert predicted.shape == entry['gt_disparity']['data'].shape == (1, 32, 64)
        assert predicted.dtype == torch.float32 and 0 <= predicted.min() and predicted.max() < 16
    assert [path.name for path in sorted(folder.iterdir())] == [
        f'{i:06d}_{i:06d}.png' for i in range(3)
    ]
    assert all(cv2.imread(str(path)).std() > 20 for path in folder.iterdir())

    assert tools.train([stereo, '--resume', '--cfg-options', 'train_cfg.max_epochs=3']) == 0
    assert (work_dir / 'epoch_3.pth').is_file()
    captured = capsys.readouterr()
    assert 'Traceback' not in captured.err
    assert 'Failed to search registry' not in captured.out + captured.err


def test_broken_stereo_pair_is_named(stereo, fails):
    write_config(stereo.parent, workers=1)
    path = training_file(stereo, 'disparity', 'left', '000002.pfm')
    whole = path.read_bytes()
    path.write_bytes(whole[:500])
    assert f'disparity {path} is truncated' in fails('train', stereo)
    path.write_bytes(whole)

    write_config(stereo.parent)
    path = training_file(stereo, 'frames_cleanpass', 'right', '000000.png')
    cv2.imwrite(str(path), np.zeros((30, 64, 3), np.uint8))
    line = fails('train', stereo)
    assert '64 x 32' in line and str(path) in line and '64 x 30' in line
    path.unlink()
    assert f'right image {path}' in fails('train', stereo)


def test_invalid_stereo_options_are_named(stereo, fails):
    root = stereo.parent / 'digits_stereo'
    line = fails('train', stereo, '--cfg-options', f'train_dataloader.dataset.data_root={root}')
    assert str(root) in line and f'mmflatten data digits --stereo --out {root}' in line
    line = fails(
        'train', stereo, '--cfg-options', 'train_dataloader.dataset.pipeline.2.crop_size=(64,64)'
    )
    assert 'crop_size' in line
    assert '(64, 64)' in line
    assert 'frames_cleanpass/TRAIN/A/0000/left/' in line
    checkpoint = stereo.parent / 'x.pth'
    torch.save(dict(state_dict={}), checkpoint)
    line = fails('test', stereo, checkpoint, '--tta')
    assert '--tta' in line and 'stereo' in line and 'tta_model' in line
