"""Losses stay on the device between two lines of the log: number of readings, values, and the stop
at a NaN.
"""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.model import BaseModel
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from mmflatten.engine.hooks.training import NonFiniteError
from mmflatten.engine.runner import Runner

STEPS, INTERVAL = 22, 5
READING = {
    Tensor.item,
    Tensor.tolist,
    Tensor.__float__,
    Tensor.__int__,
    Tensor.__bool__,
    Tensor.numpy,
}


class Numbers(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> dict:
        return dict(inputs=torch.full((3,), index / 400))


class Line(BaseModel):
    """A linear model with two losses, a count and a plain number; its loss is NaN at step `bad`."""

    def __init__(self, bad: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.bad, self.step = torch.nn.Linear(3, 2), bad, 0

    def forward(self, inputs: list[Tensor], mode: str) -> dict:
        self.step += 1
        output = self.layer(torch.stack(inputs))
        scale = float('nan') if self.step == self.bad else 1.0
        return dict(loss_a=output.square().mean() * scale, loss_b=output.double().abs().mean())


class Readings(TorchFunctionMode):
    """Counts the calls that wait for a number from the device; the others read indices and
    seeds.
    """

    number = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.number += function in READING and args[0].is_floating_point()
        return function(*args, **(kwargs or {}))


class Scalars(TorchDispatchMode):
    number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.number += (
            function is torch.ops.aten._local_scalar_dense.default and args[0].is_floating_point()
        )
        return function(*args, **(kwargs or {}))


def training(folder: Path, bad: int | None = None, **hooks) -> Runner:
    return Runner(
        Line(bad),
        str(folder),
        experiment_name=folder.name,
        train_dataloader=dict(
            batch_size=4,
            num_workers=0,
            dataset=Numbers(),
            sampler=dict(type='InfiniteSampler', shuffle=True),
        ),
        train_cfg=dict(by_epoch=False, max_iters=STEPS, val_interval=100),
        randomness=dict(seed=0),
        optim_wrapper=dict(
            optimizer=dict(type='SGD', lr=0.1, foreach=False), clip_grad=dict(max_norm=0.5)
        ),
        default_hooks=dict(
            logger=dict(interval=INTERVAL), checkpoint=dict(interval=100, save_last=False), **hooks
        ),
        log_processor=dict(by_epoch=False),
    )


def counted(runner: Runner) -> tuple[int, int]:
    with Readings() as readings, Scalars() as scalars:
        runner.train()
    return readings.number, scalars.number


def test_losses_are_read_once_per_logging_interval_and_are_the_same(tmp_path):
    before = training(tmp_path / 'stock', runtime_info=dict(type='RuntimeInfoHook'))
    readings, scalars = counted(before)
    # Three losses and a norm for the log, and the three losses again for the NaN check.
    assert readings >= 7 * STEPS <= scalars
    after = training(tmp_path / 'ours')
    assert counted(after) == (-(-STEPS // INTERVAL), 0)
    # The log has the same numbers of every step.
    one, other = (runner.message_hub.log_scalars for runner in (before, after))
    assert (
        {'train/loss', 'train/loss_a', 'train/loss_b', 'train/grad_norm', 'train/lr'}
        <= one.keys()
        == other.keys()
    )
    for name in one:
        if 'time' not in name:
            values, others = one[name].data[0], other[name].data[0]
            assert len(values) == STEPS and (values == others).all(), name
    first, second = logged(before), logged(after)
    assert first == second and len(first) == STEPS // INTERVAL


def logged(runner: Runner) -> list[dict]:
    """The lines of the log, without times."""
    (path,) = Path(runner.log_dir).glob('vis_data/scalars.json')
    lines = []
    for line in path.read_text().splitlines():
        values = Config.fromstring(f'x={line}', '.py').x
        lines.append({key: value for key, value in values.items() if 'time' not in key})
    return lines


@pytest.mark.parametrize(
    'hooks, stops_at',
    [
        ({}, 15),
        (dict(runtime_info=dict(interval=1)), 12),
        (dict(runtime_info=dict(type='RuntimeInfoHook')), 12),
    ],
)
def test_nan_stops_within_the_interval_and_its_step_is_named(tmp_path, hooks, stops_at):
    runner = training(tmp_path / 'run', bad=12, **hooks)
    with pytest.raises(NonFiniteError, match='at iteration 12 .*loss_a=nan'):
        runner.train()
    assert runner.iter + 1 == stops_at


def test_nan_stops_before_a_checkpoint_is_written(tmp_path):
    runner = training(tmp_path / 'run', bad=12)
    for hook in runner.hooks:
        if hasattr(hook, 'filename_tmpl'):
            hook._requested['interval'] = hook.interval = 13
    with pytest.raises(NonFiniteError, match='loss is NaN or infinite at iteration 12'):
        runner.train()
    assert runner.iter + 1 == 13 and not list(tmp_path.rglob('*.pth'))
