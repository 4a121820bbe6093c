"""Stereo configs: position of the attention, and training and validation on small files in real
layouts.
"""

import re
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config

from mmflatten.datasets.scenes.stereo_build import StereoSceneOptions, build_stereo_scenes
from mmflatten.engine.setup import build_runner, load_config
from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.models.attention import ConventionalAttention, FactorizedAttention

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / 'configs' / 'digits'
CONFIGS = sorted((ROOT / 'configs').glob('*/psmnet*.py'))
SAMPLE = (
    'psmnet_fa_8xb3-100e_sceneflow',
    'psmnet_4xb3-300e_kitti2012',
    'psmnet-tiny-fa_digits-stereo',
)
TINY = dict(
    max_disp=16, aggregation='basic', base_channels=4, depths=(1, 1, 1, 1), pool_sizes=(4, 2)
)
OFFICIAL_PARAMETERS = 5_224_768
FIGURES = {f'stereo/{name}' for name in ('epe', 'bad1', 'bad3', 'd1', 'epe_mean_disparity')}


@pytest.fixture(scope='module')
def digit_pairs(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp('data') / 'digits_stereo'
    build_stereo_scenes(root, StereoSceneOptions(train=6, val=2, size=32))
    return root


@pytest.fixture(scope='module')
def data_of(tmp_path_factory, digit_pairs):
    """Data set -> root folder with digit pairs in its layout."""
    root = tmp_path_factory.mktemp('layouts')
    for subset in ('flyingthings3d', 'monkaa', 'driving'):
        (root / 'sceneflow').mkdir(exist_ok=True)
        (root / 'sceneflow' / subset).symlink_to(digit_pairs)
    for year, folders in (
        (2012, ('colored_0', 'colored_1', 'disp_occ', 'disp_noc')),
        (2015, ('image_2', 'image_3', 'disp_occ_0', 'disp_noc_0')),
    ):
        write_kitti(root / f'kitti{year}' / 'training', folders)
    return dict(
        digits=digit_pairs,
        sceneflow=root / 'sceneflow',
        kitti2012=root / 'kitti2012',
        kitti2015=root / 'kitti2015',
    )


def write_kitti(root: Path, folders: tuple[str, ...]) -> None:
    """Write 162 pairs, of which two are for validation."""
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (32, 64, 3)).astype(np.uint8)
    disparity = rng.integers(0, 12 * 256, (32, 64)).astype(np.uint16)
    for folder, pixels in zip(
        folders, (image, np.roll(image, -5, axis=1), disparity, disparity // 2 * 2)
    ):
        (root / folder).mkdir(parents=True)
        encoded = cv2.imencode('.png', pixels)[1].tobytes()
        for number in range(162):
            (root / folder / f'{number:06d}_10.png').write_bytes(encoded)


def model_of(name: str):
    config = Config.fromfile(next(path for path in CONFIGS if path.stem == name))
    return build_on_meta(config.model, config.default_scope)


@pytest.mark.parametrize(
    'name, kind',
    [
        ('psmnet_8xb3-100e_sceneflow', None),
        ('psmnet_fa_8xb3-100e_sceneflow', FactorizedAttention),
        ('psmnet_nl_8xb3-100e_sceneflow', ConventionalAttention),
        ('psmnet-tiny_digits-stereo', None),
        ('psmnet-tiny-fa_digits-stereo', FactorizedAttention),
    ],
)
def test_stereo_config_has_the_attention_and_parameters_of_its_name(name, kind):
    model = model_of(name)
    found = [
        module
        for module in model.modules()
        if isinstance(module, (FactorizedAttention, ConventionalAttention))
    ]
    assert [type(module) for module in found] == ([] if kind is None else [kind])
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if 'tiny' in name:
        assert parameters < 200_000
    else:
        assert parameters == OFFICIAL_PARAMETERS + (0 if kind is None else 49_536)


def test_stereo_configs_differ_only_in_attention():
    pair = [Config.fromfile(DIGITS / f'psmnet-tiny{mark}_digits-stereo.py') for mark in ('', '-fa')]
    attention = pair[1].model.pop('attention')
    assert attention.type == 'mmflatten.FactorizedAttention'
    assert pair[0].to_dict() == pair[1].to_dict()


@pytest.mark.parametrize(
    'path',
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem in SAMPLE else pytest.mark.full)
        for path in CONFIGS
    ],
)
def test_stereo_config_trains_an_epoch_and_validates(path, data_of, tmp_path):
    kind = re.search(r'digits|sceneflow|kitti\d+', path.stem)[0]
    options = {f'model.{key}': value for key, value in TINY.items()}
    parts = range(3) if kind == 'sceneflow' else [None]
    for split in ('train', 'val', 'test'):
        options |= {
            f'{split}_dataloader.num_workers': 0,
            f'{split}_dataloader.persistent_workers': False,
        }
    options |= {
        f'{split}_dataloader.dataset.data_root': str(data_of[kind]) for split in ('val', 'test')
    }
    for part in parts:
        dataset = 'train_dataloader.dataset' + ('' if part is None else f'.datasets.{part}')
        options |= {
            f'{dataset}.data_root': str(data_of[kind]),
            f'{dataset}.pipeline.2.crop_size': (32, 48),
        }
    if 'kitti' in kind:
        options['train_dataloader.dataset.indices'] = 6
    options |= {'train_cfg.max_epochs': 1, 'train_cfg.val_interval': 1, 'load_from': None}
    config = load_config(str(path), options, str(tmp_path))
    config.experiment_name = path.stem

    runner = build_runner(config)
    runner.train()
    metrics = runner.test()

    assert FIGURES <= set(metrics) and all(np.isfinite(metrics[name]) for name in FIGURES)
    saved = torch.load((tmp_path / 'last_checkpoint').read_text(), weights_only=False)['state_dict']
    assert all(torch.isfinite(value).all() for value in saved.values())
    drawings = list(tmp_path.rglob('vis_image/*.png'))
    assert drawings, 'the validation draws its first pair'
