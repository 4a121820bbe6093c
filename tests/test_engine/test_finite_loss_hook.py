"""The loss is checked before it can reach the weights."""
from types import SimpleNamespace

import pytest
import torch
from mmengine.logging import MessageHub
from mmengine.model import BaseModel
from mmengine.optim import OptimWrapper

from mmflatten.engine.hooks.finite_loss import FiniteLossHook, NonFiniteLossError


class Scale(BaseModel):
    """Its losses are a learned number times the input, and a list of two."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, inputs, data_samples=None, mode='loss'):
        half = self.weight.sum() * 0 + 0.5
        return dict(loss_a=(self.weight * inputs).sum(), loss_b=[half, half], accuracy=inputs.mean() / 0)


@pytest.fixture
def trainer():
    """Runs the hook as a runner does: `trainer.step(number)` trains on one number."""
    model = Scale()
    optim = OptimWrapper(torch.optim.SGD(model.parameters(), lr=0.1), accumulative_counts=2)
    runner = SimpleNamespace(model=model, iter=0, epoch=1, message_hub=MessageHub(f'hub{id(model)}'))
    runner.message_hub.update_info('last_ckpt', 'work_dirs/x/epoch_1.pth')

    def step(value):
        model.train_step(dict(inputs=torch.tensor([value])), optim)
        runner.iter += 1

    return SimpleNamespace(runner=runner, step=step, model=model)


@pytest.mark.parametrize('value', [float('nan'), float('inf'), -float('inf')])
def test_training_stops_before_the_step_until_the_hook_is_gone(trainer, value):
    hook = FiniteLossHook()
    hook.before_train(trainer.runner)
    trainer.step(1.0)
    before = trainer.model.weight.clone()
    with pytest.raises(NonFiniteLossError) as raised:
        trainer.step(value)
    assert torch.equal(trainer.model.weight, before) and trainer.model.weight.grad.isfinite().all()
    for word in ('iteration 2 (epoch 2)', f'loss_a={value}', 'loss_b=1', 'work_dirs/x/epoch_1.pth'):
        assert word in str(raised.value)
    hook.after_train(trainer.runner)
    trainer.step(value)


def test_a_longer_interval_names_the_range_and_still_reads_before_a_checkpoint(trainer):
    hook = FiniteLossHook(interval=4)
    hook.before_train(trainer.runner)
    for value in (1.0, 1.0, 1.0, 1.0, 1.0, float('nan'), 1.0):
        trainer.step(value)
    with pytest.raises(NonFiniteLossError, match='between iterations 5 and 8'):
        hook.before_save_checkpoint(trainer.runner, {})
    with pytest.raises(NonFiniteLossError, match='between iterations 5 and 8'):
        trainer.step(1.0)


def test_interval_below_one_is_refused():
    with pytest.raises(ValueError, match=r'interval \(0\)'):
        FiniteLossHook(interval=0)
