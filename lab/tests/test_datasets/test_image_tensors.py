"""Images in memory give what the same images give as files."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.registry import DATASETS, DefaultScope
from torch.utils.data import DataLoader

from mmflatten_lab.datasets.image_tensors import FashionTensors, ImageTensors
from mmflatten_lab.garments.fashion import load_garments

RAW = str(Path(__file__).parents[1] / 'fashion-mnist')


def test_samples_are_the_published_images():
    dataset = FashionTensors('val', RAW)
    assert len(dataset) == 200 and dataset.metainfo['classes'][0] == 'T-shirt'
    sample = dataset[3]
    assert sample['inputs'].shape == (3, 28, 28) and sample['inputs'].dtype == torch.uint8
    assert sample['data_samples'].gt_label.tolist() == [dataset.labels[3]]
    assert torch.equal(FashionTensors('val', RAW, indices=-50)[0]['inputs'], dataset[150]['inputs'])
    assert FashionTensors('val', RAW, size=56)[0]['inputs'].shape == (3, 56, 56)
    for wrong in (dict(indices=201), dict(indices=0), dict(split='test')):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            FashionTensors(**{'split': 'val', 'folder': RAW, **wrong})


def test_training_equals_the_one_from_files(tmp_path):
    """One model, trained by MMEngine's Runner with one seed from PNG files and from memory, has the
    same weights.
    """
    from mmengine.config import Config
    from mmengine.runner import Runner

    garments = load_garments('train', Path(RAW))
    (tmp_path / 'data/train').mkdir(parents=True)
    for number, image in enumerate(garments.images[:64]):
        cv2.imwrite(str(tmp_path / f'data/train/{number:02d}.png'), image)
    (tmp_path / 'data/train.txt').write_text(
        ''.join(f'{number:02d}.png {label}\n' for number, label in enumerate(garments.labels[:64]))
    )
    files = dict(
        type='CustomDataset',
        data_root=str(tmp_path / 'data'),
        ann_file='train.txt',
        data_prefix='train',
        pipeline=[dict(type='LoadImageFromFile'), dict(type='PackInputs')],
    )
    memory = dict(type='mmflatten.FashionTensors', split='train', folder=RAW, indices=64)
    weights = []
    for name, dataset in (('files', files), ('memory', memory)):
        runner = Runner.from_cfg(
            Config(
                dict(
                    default_scope='mmpretrain',
                    work_dir=str(tmp_path / name),
                    randomness=dict(seed=3),
                    model=dict(
                        type='ImageClassifier',
                        backbone=dict(type='mmflatten.SmallCNN', channels=(4, 8)),
                        head=dict(type='LinearClsHead', num_classes=10, in_channels=8),
                        data_preprocessor=dict(num_classes=10, mean=[72.0] * 3, std=[90.0] * 3),
                    ),
                    train_dataloader=dict(
                        batch_size=8,
                        num_workers=0,
                        sampler=dict(type='DefaultSampler', shuffle=True),
                        dataset=dataset,
                    ),
                    optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.1)),
                    train_cfg=dict(by_epoch=True, max_epochs=2),
                )
            )
        )
        runner.train()
        weights.append(runner.model.state_dict())
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


def test_shifts_and_flips_keep_the_pixels():
    images = torch.randint(1, 256, (1, 1, 6, 6), dtype=torch.uint8)
    dataset = ImageTensors(images, torch.tensor([1]), ('a', 'b'), padding=2, flip=0.5)
    torch.manual_seed(0)
    seen = {pixels_of(dataset[0]['inputs']) for _ in range(200)}
    padded = torch.nn.functional.pad(images[0], (2,) * 4)
    possible = set()
    for y, x in np.ndindex(5, 5):
        crop = padded[:, y : y + 6, x : x + 6].expand(3, -1, -1)
        possible |= {pixels_of(crop), pixels_of(crop.flip(-1))}
    assert seen <= possible and len(seen) > 30


def pixels_of(image: torch.Tensor) -> tuple[int, ...]:
    return tuple(image.flatten().tolist())


def test_the_registry_and_loaders_know_it():
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        dataset = DATASETS.build(dict(type='mmflatten.FashionTensors', split='val', folder=RAW))
    batch = next(iter(DataLoader(dataset, 4, collate_fn=lambda items: items)))
    assert len(batch) == 4
