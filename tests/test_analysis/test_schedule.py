"""The schedule that is computed is the one that a real training had, iteration by iteration."""
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from torch import nn

from mmflatten.analysis.schedule import Loop, ema_momentum, follow, keep_distinct_groups
from mmflatten.engine.schedule import read_schedule
from mmflatten.engine.setup import build_runner, load_config

# Warm-up by iterations, a cosine by epochs turned into iterations, steps of the decay by epochs; groups by rate and by
# decay; a momentum that falls; an average that begins late and becomes slower.
TRAINING = '''
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
custom_hooks = [dict(type='EMAHook', ema_type='MomentumAnnealingEMA', gamma=5, momentum=0.2, begin_iter=4)]
auto_scale_lr = dict(base_batch_size=4, enable=True)
val_cfg = None
val_dataloader = None
val_evaluator = None
'''


class Recorder(Hook):
    """What the optimizer of a training has in each iteration, and what its average takes."""

    priority = 'VERY_LOW'  # behind the average

    def __init__(self) -> None:
        self.settings, self.momenta = [], []

    def average(self, runner) -> torch.Tensor:
        hook = next(hook for hook in runner.hooks if hasattr(hook, 'ema_model'))
        return torch.cat([weight.flatten() for weight in hook.ema_model.module.parameters()])

    def before_train_iter(self, runner, batch_idx, data_batch=None) -> None:
        self.settings.append({(group['lr'], group['weight_decay'], group['betas'][0])
                              for group in runner.optim_wrapper.optimizer.param_groups})
        self.before = self.average(runner)

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        weights = torch.cat([weight.detach().flatten() for weight in runner.model.parameters()])
        moved, whole = self.average(runner) - self.before, weights - self.before
        self.momenta.append(float((moved * whole).sum() / (whole * whole).sum()))


def test_every_iteration_is_that_of_a_real_training(config_on):
    config = str(config_on('flatten-swin-nano_digits', TRAINING))
    runner, recorder = build_runner(load_config(config)), Recorder()
    runner.register_hook(recorder)
    runner.train()

    loop, schedule = read_schedule(load_config(config), 1, None, 1, 1)
    assert loop.iterations == len(recorder.settings) == len(schedule.iterations) > 10
    columns = [schedule.values[kind] for kind in ('lr', 'weight_decay', 'momentum')]
    for index, real in enumerate(recorder.settings):
        assert {tuple(column[index, group] for column in columns) for group in range(len(schedule.groups))} == real
    assert len({tuple(row) for row in columns[0]}) > 10 and 2 < len(schedule.groups) < 20
    assert sum(group.parameters for group in schedule.groups) == sum(map(torch.numel, runner.model.parameters()))
    begun = ~np.isnan(schedule.ema)
    assert begun.sum() == len(begun) - 4 and len(set(schedule.ema[begun])) > 5
    np.testing.assert_allclose(schedule.ema[begun], np.array(recorder.momenta)[begun], rtol=1e-3)


def test_the_last_iteration_is_kept_and_epochs_may_be_told(config_on):
    cfg = load_config(str(config_on('flatten-swin-nano_digits')))
    cfg.train_dataloader.dataset.data_root = 'nowhere/'
    loop, schedule = read_schedule(cfg, 2, 50, 20, 1)
    assert (loop.iterations, schedule.iterations.tolist(), schedule.ema) == (50, [1, 21, 41, 50], None)
    with pytest.raises(RuntimeError, match='nowhere.*--epoch-length'):
        read_schedule(cfg, 1, None, None, 1)


def test_iterations_of_an_epoch_are_those_of_each_gpu(config_on):
    cfg = load_config(str(config_on('flatten-swin-nano_digits')))
    one = read_schedule(cfg, 1, None, None, 10)[0].epoch_length
    assert read_schedule(cfg, 2, None, None, 10)[0].epoch_length == -(-one // 2)


def optimizer_of(*rates: float) -> torch.optim.Optimizer:
    return torch.optim.SGD([dict(params=[nn.Parameter(torch.zeros(2))], lr=rate) for rate in rates], lr=1.)


def test_groups_with_equal_settings_are_one():
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    groups = [dict(params=[weight], lr=0.1 if weight.ndim == 1 else 0.2) for weight in model.parameters()]
    optimizer = torch.optim.SGD(groups, lr=1.)
    kept = keep_distinct_groups(optimizer, model)
    assert [(group.tensors, group.parameters, group.example) for group in kept] == [(2, 10, '0.weight'),
                                                                                    (2, 4, '0.bias')]
    assert [group['lr'] for group in optimizer.param_groups] == [0.2, 0.1]


def test_schedulers_by_epoch_step_once_in_a_loop_of_iterations():
    loop = Loop.of(Config(dict(train_cfg=dict(max_iters=4))), 2)
    steps = follow(optimizer_of(1.), dict(type='ExponentialLR', gamma=0.5), loop, 'mmengine')
    assert [groups[0]['lr'] for groups in steps] == [1] * 4


def test_a_scheduler_that_waits_for_metrics_is_refused():
    with pytest.raises(ValueError, match='ReduceOnPlateauLR'):
        next(follow(optimizer_of(1.), dict(type='ReduceOnPlateauLR', monitor='loss'), Loop(True, 1, 1), 'mmengine'))


def test_an_average_that_begins_with_an_epoch_is_a_copy_until_then():
    found = ema_momentum(dict(type='EMAHook', momentum=0.25, begin_epoch=2), np.arange(1, 8), Loop(True, 3, 3),
                         'mmengine')
    np.testing.assert_allclose(found, [np.nan] * 4 + [0.25] * 3)
