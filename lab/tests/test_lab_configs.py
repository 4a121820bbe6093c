"""Every config of the lab trains an iteration and validates on files in the format of its data
set.
"""

from pathlib import Path

import numpy as np
import pytest

from mmflatten.datasets.scenes.build import SceneOptions, build_scenes
from mmflatten.datasets.scenes.stereo_build import StereoSceneOptions, build_stereo_scenes
from mmflatten.engine.setup import build_runner, load_config
from mmflatten_lab.garments.scenes import garments

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / 'configs').glob('[!_]*/*.py'))
PARTS = ('fashion.py', 'five_epochs.py')  # of configs/nano
# Here their canvases and stages are those of `deit-nano_canvases-several-sizes`, cut to a batch.
VARIANTS = ('deit-nano_canvases-learned', 'deit-nano_canvases-tenth-larger')
IMAGES = 2  # a batch, of each kind of canvas too


@pytest.fixture(scope='module')
def data(tmp_path_factory, fashion_files) -> Path:
    root = tmp_path_factory.mktemp('data')
    build_scenes(
        root / 'garments', SceneOptions(train=2, val=2, size=96, seed=0), garments(fashion_files)
    )
    for name in ('digits', 'digits-320', 'digits-640', 'digits-choice'):
        build_scenes(root / name, SceneOptions(train=2, val=2, size=96, seed=0))
    build_stereo_scenes(
        root / 'garments_stereo',
        StereoSceneOptions(train=2, val=2, size=96),
        garments(fashion_files),
    )
    return root


def redirect(node, data: Path) -> None:
    """Replace the folder `data/` in all paths of a part of a config."""
    for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
        if isinstance(value, str) and value.startswith('data/'):
            node[key] = f'{data}/{value.removeprefix("data/")}'
        elif isinstance(value, (dict, list)):
            redirect(value, data)


@pytest.mark.parametrize(
    'path',
    [
        pytest.param(path, marks=[pytest.mark.full] if path.stem in VARIANTS else [], id=path.stem)
        for path in CONFIGS
        if path.name not in PARTS
    ],
)
def test_config_trains_and_validates(path, data, fashion_files, tmp_path):
    config = load_config(str(path), work_dir=str(tmp_path))
    config.val_dataloader = config.get('val_dataloader') or config.test_dataloader
    config.val_evaluator = config.get('val_evaluator') or config.test_evaluator
    config.val_cfg = config.get('val_cfg') or dict(type='ValLoop')
    for split in ('train', 'val', 'test'):
        loader = config[f'{split}_dataloader']
        loader.update(batch_size=IMAGES, num_workers=0, persistent_workers=False)
        if 'data_root' not in loader.dataset and 'datasets' not in loader.dataset:
            loader.dataset.update(folder=str(fashion_files), indices=IMAGES)
        if 'stages' in loader.get('sampler', {}):
            # The other stages repeat these, and the rehearsal's batch lies in the first two.
            loader.dataset.canvases = loader.dataset.canvases[:3]
            loader.sampler.stages = [IMAGES] * len(loader.dataset.canvases)
        redirect(loader, data)
    for split in ('val', 'test'):
        redirect(config[f'{split}_evaluator'], data)
    test_cfg = config.model.get('test_cfg') or {}
    if 'score_thr' in test_cfg:
        test_cfg.score_thr = 0.0  # random weights find nothing
    for part in ('rpn', 'rcnn'):
        if part in test_cfg:
            test_cfg[part].max_per_img = 20
    loop = dict(max_iters=1) if 'max_iters' in config.train_cfg else dict(max_epochs=1)
    config.train_cfg.update(**loop, val_interval=1)
    runner = build_runner(config)
    runner.train()
    metrics = runner.val_loop.run()
    assert metrics and all(
        np.isfinite(value) for name, value in metrics.items() if 'mAP' not in name
    )
