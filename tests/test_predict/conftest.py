"""Models: the classifier of the package, and a stereo model with random weights, with a pair for
it.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.registry import MODELS, DefaultScope

from mmflatten.datasets.scenes.stereo_build import StereoSceneOptions, build_stereo_scenes
from mmflatten.engine.setup import load_config
from mmflatten.hub.remote import from_pretrained
from mmflatten.predict.predictor import Predictor

CONFIG = """
_base_ = ['{base}']
model = dict(max_disp=16, base_channels=4, depths=(1, 1, 1, 1), pool_sizes=(4, 2))
test_dataloader = dict(num_workers=0, persistent_workers=False, dataset=dict(data_root='{data}'))
"""


@pytest.fixture(scope='session')
def stereo_run(tmp_path_factory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp('stereo')
    build_stereo_scenes(folder / 'data', StereoSceneOptions(train=1, val=1, size=64, seed=0))
    config, checkpoint = folder / 'stereo.py', folder / 'stereo.pth'
    base = Path(__file__).parents[2] / 'configs' / 'digits' / 'psmnet-tiny_digits-stereo.py'
    config.write_text(CONFIG.format(base=base, data=folder / 'data'))
    with DefaultScope.overwrite_default_scope('mmflatten'):
        torch.manual_seed(0)
        torch.save(
            dict(state_dict=MODELS.build(load_config(str(config)).model).state_dict()), checkpoint
        )
    (left,) = (folder / 'data').glob('frames_cleanpass/TEST/**/left/*')
    return SimpleNamespace(
        config=str(config),
        checkpoint=str(checkpoint),
        pair=(str(left), str(left).replace('/left/', '/right/')),
    )


@pytest.fixture(scope='session')
def predictor() -> Predictor:
    """The classifier of the package."""
    return from_pretrained('garment-classifier', 'cpu')
