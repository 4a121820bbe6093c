"""L2ViT on ImageNet-22k: data, classes, and fine-tuning on ImageNet-1k."""

from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope
from mmengine.runner import Runner
from PIL import Image

from mmflatten.engine.setup import load_config as read_for_a_run
from mmflatten.engine.setup import train

FOLDER = Path(__file__).parents[2] / 'configs' / 'l2vit'
SMALL = dict(embed_dims=8, depths=(2, 2, 2, 2), num_heads=(1, 1, 2, 2))
CLASSES_22K = 21841


def class_folders(root: Path, number: int, images: int) -> Path:
    """Write class folders like ImageNet's, with an image in the first `images` of them."""
    pixels = np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8)
    for split in ('train', 'val'):
        for label in range(number):
            folder = root / split / f'n{label:08d}'
            folder.mkdir(parents=True)
            if label < images:
                Image.fromarray(pixels).save(folder / f'n{label:08d}_1.JPEG')
    return root


def read_small(name: str, root: Path, work_dir: Path) -> Config:
    """Read the config with few channels, data in `root`, and no loader processes."""
    config = read_for_a_run(str(FOLDER / f'{name}.py'), work_dir=str(work_dir))
    init_default_scope(config.default_scope)
    config.model.backbone.arch = SMALL
    config.model.head.in_channels = 64
    config.default_hooks.logger.interval = 1
    for split in ('train', 'val', 'test'):
        config[f'{split}_dataloader'].update(num_workers=0, persistent_workers=False, batch_size=2)
        config[f'{split}_dataloader'].dataset.data_root = str(root)
    return config


def build(config: Config) -> torch.nn.Module:
    torch.manual_seed(1)
    config.model.data_preprocessor = config.data_preprocessor
    model = MODELS.build(config.model)
    model.init_weights()
    return model


def test_imagenet_22k_is_read_and_all_classes_are_trained(tmp_path):
    root = class_folders(tmp_path / 'imagenet22k', 4, 3)
    config = read_small('l2vit-b_8xb128_in22k', root, tmp_path)
    loaders = {
        split: Runner.build_dataloader(config[f'{split}_dataloader'], seed=0)
        for split in ('train', 'val')
    }
    for loader in loaders.values():
        assert type(loader.dataset).__name__ == 'ImageNet21k' and len(loader.dataset) == 3
        assert sorted(loader.dataset.get_gt_labels()) == [0, 1, 2]
        assert len(loader.dataset.CLASSES) == 4
    model = build(config)
    batch = next(iter(loaders['train']))
    assert batch['inputs'].shape == (2, 3, 224, 224)
    batch['data_samples'][0].set_gt_label(CLASSES_22K - 1)
    loss = model(**model.data_preprocessor(batch, training=True), mode='loss')['loss']
    assert loss.item() == pytest.approx(np.log(CLASSES_22K), rel=0.02)
    loss.backward()
    assert model.head.fc.weight.grad.shape == (CLASSES_22K, 64)


def test_image_list_replaces_the_folder_search(tmp_path):
    root = class_folders(tmp_path / 'imagenet22k', 2, 2)
    (root / 'meta').mkdir()
    (root / 'meta' / 'train.txt').write_text('n00000001/n00000001_1.JPEG 21840\n')
    config = read_small('l2vit-b_8xb128_in22k', root, tmp_path)
    loader = Runner.build_dataloader(config.train_dataloader, seed=0)
    assert loader.dataset.get_gt_labels().tolist() == [21840]
    assert next(iter(loader))['inputs'].shape[0] == 1


@pytest.mark.parametrize(
    'name',
    [
        'l2vit-b_in22k-pre_16xb64_in1k-224px',
        pytest.param('l2vit-b_in22k-pre_16xb64_in1k-384px', marks=pytest.mark.full),
    ],
)
def test_fine_tuning_loads_the_backbone_and_a_new_head(name, tmp_path):
    old = build(read_small('l2vit-b_8xb128_in22k', tmp_path, tmp_path)).state_dict()
    torch.save(dict(state_dict=old), tmp_path / '22k.pth')
    config = read_small(name, class_folders(tmp_path / 'imagenet', 1000, 4), tmp_path / 'run')
    config.load_from = str(tmp_path / '22k.pth')
    config.train_cfg.max_epochs = 1

    train(config)

    saved = torch.load(tmp_path / 'run' / 'epoch_1.pth', weights_only=False)
    averaged = saved['state_dict']
    trained = {key.removeprefix('module.'): value for key, value in saved['ema_state_dict'].items()}
    # two steps at up to 1.1e-5 hardly change anything except the statistics
    for state in (averaged, trained):
        for key, value in old.items():
            if key.startswith('backbone.') and 'running' not in key and 'num_batches' not in key:
                torch.testing.assert_close(state[key], value, rtol=0, atol=2e-5)
        assert state['head.fc.weight'].shape == (1000, 64) and state['head.fc.weight'].std() > 0
