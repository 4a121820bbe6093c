"""Heads with queries learn a few scenes by heart: matching, labels and losses fit together."""

from pathlib import Path

import pytest
import torch
from mmdet.registry import DATASETS, MODELS
from mmengine.dataset import pseudo_collate

from mmflatten.datasets.scenes.build import SceneOptions, build_scenes

STEPS = 80
CONFIGS = [
    'digits/mask2former_flatten-swin-nano_digits.py',
    'digits/encoder-mask_flatten-swin-nano_digits.py',
]


@pytest.fixture(scope='module')
def root(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp('scenes')
    build_scenes(root, SceneOptions(train=4, val=1, size=160, seed=0))
    return root


@pytest.mark.full
@pytest.mark.parametrize('name', CONFIGS)
def test_class_loss_of_scenes_learned_by_heart_falls(name, load_config, root):
    torch.manual_seed(0)
    config = load_config(name)
    dataset = DATASETS.build(dict(config.train_dataloader.dataset, data_root=str(root)))
    model = MODELS.build(config.model)
    model.init_weights()
    scenes = model.data_preprocessor(pseudo_collate(list(dataset)), training=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, total_iters=20)
    losses = []
    for _ in range(STEPS):
        losses.append(model(**scenes, mode='loss'))
        total, _ = model.parse_losses(losses[-1])
        optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        warmup.step()
    first, last = losses[0]['loss_cls'].item(), losses[-1]['loss_cls'].item()
    assert first > 3 and last < 0.5
