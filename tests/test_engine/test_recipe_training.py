"""`Training` agrees with MMEngine's Runner: rates, checkpoints, parameters, images."""

from pathlib import Path
from typing import Any

import pytest
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.utils.data import Dataset

from mmflatten.engine.recipe.schedule import schedule_of
from mmflatten.engine.recipe.settings import training_set
from mmflatten.engine.recipe.training import Training

CONFIGS = Path(__file__).parents[2] / 'configs'


class Toy(BaseModel):
    """100,000 numbers, a norm, and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(1000, 100), nn.LayerNorm(100)

    def forward(self, inputs: list[Tensor], mode: str) -> dict[str, Tensor]:
        return dict(loss=self.norm(self.linear(torch.stack(inputs))).mean())


class Ten(Dataset):
    """Ten samples: an epoch has three iterations of four."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return dict(inputs=torch.ones(1000))


class Rates(Hook):
    """The rates that an iteration trains with."""

    def __init__(self) -> None:
        self.seen: list[list[float]] = []

    def before_train_iter(self, runner: Runner, *args: Any, **kwargs: Any) -> None:
        groups = runner.optim_wrapper.param_groups
        # of the norm, and of the linear layer
        self.seen.append([groups[-1]['lr'], groups[0]['lr']])


LOOPS = {
    'epochs': (
        dict(by_epoch=True, max_epochs=4),
        [
            dict(type='LinearLR', start_factor=0.1, by_epoch=False, end=5),
            dict(
                type='CosineAnnealingLR',
                by_epoch=True,
                convert_to_iter_based=True,
                begin=1,
                end=4,
                eta_min_ratio=0.1,
            ),
        ],
    ),
    'steps': (dict(by_epoch=True, max_epochs=4), [dict(type='MultiStepLR', milestones=[1, 3])]),
    'iterations': (
        dict(by_epoch=False, max_iters=11),
        [dict(type='PolyLR', by_epoch=False, power=0.9, eta_min=1e-5)],
    ),
    'never': (
        dict(by_epoch=False, max_iters=11),
        [dict(type='StepLR', by_epoch=True, step_size=1)],
    ),
}


def toy_config(loop: str) -> Config:
    train_cfg, schedulers = LOOPS[loop]
    return Config(
        dict(
            model=dict(type=Toy),
            train_cfg=train_cfg,
            param_scheduler=schedulers,
            optim_wrapper=dict(
                optimizer=dict(type='AdamW', lr=0.01, weight_decay=0.05),
                paramwise_cfg=dict(norm_decay_mult=0.0, custom_keys={'linear': dict(lr_mult=0.5)}),
            ),
            train_dataloader=dict(
                batch_size=4,
                num_workers=0,
                dataset=dict(type=Ten),
                sampler=dict(
                    type='DefaultSampler' if train_cfg['by_epoch'] else 'InfiniteSampler',
                    shuffle=False,
                ),
            ),
            default_hooks=dict(
                checkpoint=dict(type='CheckpointHook', interval=2, max_keep_ckpts=1)
            ),
        )
    )


@pytest.mark.parametrize('loop', LOOPS)
def test_rates_and_checkpoints_equal_those_of_mmengine(loop, tmp_path):
    cfg, rates = toy_config(loop), Rates()
    runner = Runner(
        Toy(),
        str(tmp_path),
        custom_hooks=[rates],
        log_level='ERROR',
        **{key: value for key, value in cfg.to_dict().items() if key != 'model'},
    )
    runner.train()
    checked = Training(cfg, images=10)
    assert checked.iterations == len(rates.seen)
    torch.testing.assert_close(schedule_of(checked, 1).values['lr'].tolist(), rates.seen)
    assert checked.rates == [highest for highest, _ in rates.seen]
    if loop == 'steps':
        written, found = list(tmp_path.glob('epoch_*.pth')), checked.checkpoints
        assert len(written) == 1 and found.most == 2 * found.size
        assert written[0].stat().st_size == pytest.approx(found.size, rel=0.02)


@pytest.mark.parametrize('loop, field', [('epochs', 'max_epochs'), ('iterations', 'max_iters')])
def test_length_of_a_training_is_bounded(loop, field):
    cfg = toy_config(loop)
    cfg.train_cfg[field] = 10**9
    with pytest.raises(ValueError, match=rf'train_cfg\.{field}.*1000000000'):
        Training(cfg, images=10)


def test_parameters_are_grouped_by_decay_and_rate():
    checked = Training(toy_config('steps'), images=10)
    groups = schedule_of(checked).groups
    assert [
        (group.settings['lr'], group.settings['weight_decay'], group.parameters) for group in groups
    ] == [(0.01, 0.0, 200), (0.005, 0.05, 100_100)]


def test_images_of_an_existing_annotation_file_are_not_looked_up(tmp_path):
    file = tmp_path / 'instances_train2017.json'
    coco = Config(dict(type='CocoDataset', data_root=str(tmp_path), ann_file=file.name))
    assert training_set(coco).images == 117_266
    file.write_text('{}')
    assert training_set(coco).images == 0
    assert (
        training_set(
            Config(
                dict(
                    type='RepeatDataset', times=5, dataset=dict(type='ADE20KDataset', data_root='')
                )
            )
        ).images
        == 5 * 20_210
    )


@pytest.mark.parametrize(
    'base, images',
    [
        ('imagenet_bs128_224', 1_281_167),
        ('in22k_bs128_224', 14_197_122),
        ('coco_instance', 117_266),
        ('ade20k_512x512', 20_210),
        ('sceneflow_stereo', 35_454),
        ('kitti_stereo', 160),
        ('digits_coco', 1000),
        ('digits_cls', 4405),
    ],
)
def test_training_set_knows_standard_data_sets(base, images, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # no data here
    cfg = Config.fromfile(CONFIGS / '_base_' / 'datasets' / f'{base}.py')
    assert training_set(cfg.train_dataloader.dataset).images == images
