"""A world for the stress test: images, a model that trains in a moment, weights, predictions, a study and shards."""
import random
from pathlib import Path
from textwrap import dedent

import cv2
import numpy as np
import torch
import yaml
from cases import command, run

ROOT = Path(__file__).parents[3]
CONFIG = '''
    _base_ = ['{root}/configs/_base_/default_runtime.py']
    default_scope = 'mmpretrain'
    randomness = dict(seed=0)
    model = dict(
        type='ImageClassifier',
        backbone=dict(type='mmflatten.FLattenSwin', arch=dict(embed_dims=8, depths=(1, 1), num_heads=(1, 1)),
                      attn_types='LS', img_size=32, softmax_window=4, drop_path_rate=0.5, out_indices=(1, )),
        neck=dict(type='GlobalAveragePooling'),
        head=dict(type='LinearClsHead', num_classes=2, in_channels=16, topk=(1, ), loss=dict(type='CrossEntropyLoss')))
    data_preprocessor = dict(num_classes=2, mean=[127.5] * 3, std=[127.5] * 3, to_rgb=True)
    pipeline = [dict(type='LoadImageFromFile'), dict(type='Resize', scale=(32, 32)), dict(type='PackInputs')]
    train_dataloader = dict(
        batch_size=4, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=True),
        dataset=dict(type='CustomDataset', data_root='{data}', pipeline=pipeline, classes=['dark', 'light']))
    val_dataloader = dict(
        batch_size=4, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=False),
        dataset=dict(type='CustomDataset', data_root='{data}', pipeline=pipeline, classes=['dark', 'light']))
    test_dataloader = val_dataloader
    val_evaluator = dict(type='Accuracy', topk=(1, ))
    test_evaluator = val_evaluator
    optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.05, momentum=0.9))
    param_scheduler = [dict(type='CosineAnnealingLR', by_epoch=True, T_max=12)]
    train_cfg = dict(by_epoch=True, max_epochs=12, val_interval=1)
    val_cfg = dict()
    test_cfg = dict()
    default_hooks = dict(checkpoint=dict(interval=1, max_keep_ckpts=2))
'''


class World:
    """Files below `folder`, made once.

    Attributes:
        config, weights: of the model.
        predictions: results.pkl, with results.json beside it.
        study: a study of two attentions and one seed, not started.
        photos: three images that can be predicted.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.data, self.config, self.study = folder / 'data', folder / 'tiny.py', folder / 'tiny.yaml'
        self.weights, self.predictions = folder / 'tiny.pth', folder / 'results.pkl'
        draw = np.random.default_rng(seed)
        for label, name in enumerate(('dark', 'light')):
            (self.data / name).mkdir(parents=True)
            for number in range(8):
                image = draw.integers(100 * label, 100 * label + 150, (32, 32, 3), np.uint8)
                cv2.imwrite(str(self.data / name / f'{number}.png'), image)
        self.photos = sorted((self.data / 'dark').iterdir())[:3]
        self.config.write_text(dedent(CONFIG).format(root=ROOT, data=self.data))
        attention = {name: {'model.backbone.mixers': dict(L=dict(type='LinearAttention', feature_map=name))}
                     for name in ('relu', 'elu')}
        self.study.write_text(yaml.safe_dump(dict(
            base=str(self.config), budget=dict(epochs=4), metrics=['accuracy/top1'],
            factors=dict(attention=attention, seed=1))))
        made = run(self._make, folder / 'made.txt', 300)
        if made.status != 0:
            raise RuntimeError(f'the files of the campaign could not be made: {made.output[-2000:]}')

    def _make(self) -> int:
        from mmflatten.config import build_model
        from mmflatten.engine.setup import load_config
        torch.manual_seed(0)
        torch.save(dict(state_dict=build_model(load_config(str(self.config))).state_dict()), self.weights)
        return command(['test', self.config, self.weights, '--out', self.predictions], self.folder)()

    def place(self, name: str) -> Path:
        """Make an empty folder for a case."""
        folder = self.folder / 'cases' / name
        folder.mkdir(parents=True)
        return folder
