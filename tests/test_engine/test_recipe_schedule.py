"""The computed schedule equals that of a real training in every iteration."""

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from torch import nn

from mmflatten.cli import check as command
from mmflatten.engine.recipe import fast_forward
from mmflatten.engine.recipe.schedule import schedule_of
from mmflatten.engine.recipe.training import Training
from mmflatten.engine.setup import build_runner, load_config

# Warm-up by iterations, a cosine by epochs turned into iterations, steps of the decay by epochs;
# groups by rate and by decay; a momentum that falls.
TRAINING = """
train_cfg = dict(max_epochs=2)
optim_wrapper = dict(
    _delete_=True, optimizer=dict(type='AdamW', lr=1e-3, weight_decay=0.05),
    constructor='mmflatten.LayerDecayOptimWrapperConstructor',
    paramwise_cfg=dict(layer_decay_rate=0.7, norm_decay_mult=0., bias_decay_mult=0.))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, by_epoch=False, end=5),
    dict(type='CosineAnnealingLR', by_epoch=True, T_max=2, begin=0, convert_to_iter_based=True),
    dict(type='MultiStepParamScheduler', param_name='weight_decay', milestones=[1], gamma=0.5),
    dict(type='LinearMomentum', start_factor=1., end_factor=0.5, by_epoch=False)]
auto_scale_lr = dict(base_batch_size=4, enable=True)
val_cfg = None
val_dataloader = None
val_evaluator = None
"""


class Recorder(Hook):
    """Settings of the optimizer of a training in each iteration."""

    def __init__(self) -> None:
        self.settings = []

    def before_train_iter(self, runner, batch_idx, data_batch=None) -> None:
        self.settings.append(
            {
                (group['lr'], group['weight_decay'], group['betas'][0])
                for group in runner.optim_wrapper.optimizer.param_groups
            }
        )


def test_schedule_equals_a_real_training(config_on):
    config = str(config_on('flatten-swin-nano_digits', TRAINING))
    runner, recorder = build_runner(load_config(config)), Recorder()
    runner.register_hook(recorder)
    runner.train()

    images = len(runner.train_dataloader.dataset)
    schedule = schedule_of(Training(load_config(config), gpus=1, images=images))
    assert len(recorder.settings) == len(schedule.iterations) > 10
    columns = [schedule.values[kind] for kind in ('lr', 'weight_decay', 'momentum')]
    for index, real in enumerate(recorder.settings):
        assert set(zip(*(column[index] for column in columns), strict=True)) == real
    assert len({tuple(row) for row in columns[0]}) > 10 and 2 < len(schedule.groups) < 20
    assert sum(group.parameters for group in schedule.groups) == sum(
        map(torch.numel, runner.model.parameters())
    )


class Pair(BaseModel):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))

    def forward(self, inputs: torch.Tensor, mode: str) -> torch.Tensor:
        return self.layers(inputs)


def pair_training(**changes: object) -> Training:
    """Three epochs of three iterations; biases have half the rate."""
    optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.2), paramwise_cfg=dict(bias_lr_mult=0.5))
    cfg = dict(
        model=dict(type=Pair),
        train_cfg=dict(max_epochs=3),
        optim_wrapper=optim_wrapper,
        train_dataloader=dict(batch_size=2, dataset=dict(type='MadeUp')),
    )
    return Training(Config({**cfg, **changes}), gpus=1, images=6)


def test_schedule_has_a_group_for_equal_settings_and_leaves_the_optimizer_unchanged():
    training = pair_training(param_scheduler=dict(type='ExponentialLR', gamma=0.5))
    schedule = schedule_of(training, 4)
    assert [(group.tensors, group.parameters, group.example) for group in schedule.groups] == [
        (2, 10, 'layers.0.weight'),
        (2, 4, 'layers.0.bias'),
    ]
    assert schedule.iterations.tolist() == [1, 5, 9]  # the last is kept
    np.testing.assert_allclose(schedule.values['lr'], [[0.2, 0.1], [0.1, 0.05], [0.05, 0.025]])
    assert [group['lr'] for group in training.optimizer.param_groups] == [0.2, 0.1] * 2


# Schedulers whose steps are taken at once, alone and one after the other; epochs of three
# iterations.
FAST = {
    'warm-up and cosine': [
        dict(type='LinearLR', start_factor=0.1, by_epoch=False, end=50),
        dict(type='CosineAnnealingLR', by_epoch=True, begin=17, convert_to_iter_based=True),
    ],
    'overlapping': [
        dict(type='LinearLR', start_factor=0.1, by_epoch=False, end=90),
        dict(type='CosineAnnealingLR', by_epoch=False, begin=20, eta_min_ratio=0.1),
    ],
    'cosine of several periods': [dict(type='CosineAnnealingLR', by_epoch=False, T_max=37)],
    'polynomial': [dict(type='PolyLR', by_epoch=False, power=0.9, eta_min=1e-3)],
    'steps': [dict(type='MultiStepLR', by_epoch=False, milestones=[5, 100, 200], gamma=0.5)],
    'equal steps': [dict(type='StepLR', by_epoch=False, step_size=30, gamma=0.5)],
    'constant factor': [dict(type='ConstantLR', by_epoch=False, factor=0.5, begin=4, end=99)],
    'by iteration and by epoch': [
        dict(type='ExponentialLR', by_epoch=False, gamma=0.99),
        dict(type='MultiStepLR', by_epoch=True, milestones=[2, 40]),
    ],
    'without a closed form': [dict(type='OneCycleLR', by_epoch=False, eta_max=1, total_steps=300)],
    'momentum': [dict(type='LinearMomentum', by_epoch=False, start_factor=1, end_factor=0.5)],
}


@pytest.mark.parametrize('name', FAST)
@pytest.mark.parametrize('optimizer', ['SGD', 'AdamW'])
def test_steps_taken_at_once_equal_single_steps(name, optimizer):
    training = pair_training(
        train_cfg=dict(max_epochs=100),
        param_scheduler=FAST[name],
        optim_wrapper=dict(
            optimizer=dict(type=optimizer, lr=0.2), paramwise_cfg=dict(bias_lr_mult=0.5)
        ),
    )
    every, seventh = (schedule_of(training, step) for step in (1, 7))
    assert len(every.iterations) == 300
    for kind, values in seventh.values.items():
        single_steps = every.values[kind][seventh.iterations - 1]
        np.testing.assert_allclose(values, single_steps, rtol=1e-9, atol=1e-14)


def test_schedule_of_a_hundred_million_iterations_ends_at_its_minimum():
    training = pair_training(
        train_cfg=dict(max_iters=100_000_000, max_epochs=None),
        param_scheduler=[
            dict(type='LinearLR', start_factor=0.1, by_epoch=False, end=1_000_000),
            dict(type='CosineAnnealingLR', by_epoch=False, begin=1_000_000, eta_min_ratio=0.01),
        ],
    )
    schedule = schedule_of(training)
    assert training.last_rate == pytest.approx(0.002)
    rates = schedule.values['lr'][:, 0]
    assert rates[0] == pytest.approx(0.02) and rates.max() == pytest.approx(0.2)
    assert schedule.iterations[rates.argmax()] == pytest.approx(1_000_000, rel=0.1)


def test_long_schedule_without_a_closed_form_is_rejected(monkeypatch):
    monkeypatch.setattr(fast_forward, 'MAX_STEPS', 1000)
    training = pair_training(
        train_cfg=dict(max_iters=1100, max_epochs=None),
        param_scheduler=dict(type='OneCycleLR', by_epoch=False, eta_max=1, total_steps=1100),
    )
    with pytest.raises(ValueError, match='param_scheduler.*OneCycleLR'):
        schedule_of(training)


def test_schedule_rejects_a_scheduler_that_depends_on_metrics():
    with pytest.raises(ValueError, match='ReduceOnPlateauLR'):
        schedule_of(pair_training(param_scheduler=dict(type='ReduceOnPlateauLR', monitor='loss')))


def test_command_counts_images(scenes, config_on, capsys):
    config = config_on('flatten-swin-nano_digits')
    assert command.main([str(config), '--gpus', '1']) == 1  # with warnings
    images = len(list(scenes.glob('crops/train/*/*.png')))
    assert f' {images} images' in capsys.readouterr().out


def test_command_requires_the_size_of_missing_data(config_on, capsys):
    arguments = [
        str(config_on('flatten-swin-nano_digits')),
        '--cfg-options',
        'train_dataloader.dataset.data_root=nowhere/',
    ]
    assert command.main(arguments) == 1
    assert 'nowhere' in (said := capsys.readouterr().err) and '--dataset-size' in said
    assert command.main([*arguments, '--dataset-size', '60', '--gpus', '3']) == 1  # with warnings
    assert '1 epochs of 10 iterations' in capsys.readouterr().out
    assert command.main([*arguments, 'train_cfg=None']) == 1
    assert 'train_cfg' in capsys.readouterr().err
