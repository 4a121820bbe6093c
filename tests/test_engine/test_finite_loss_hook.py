"""The loss is checked before it can reach the weights."""
from types import SimpleNamespace

import pytest
import torch
from mmengine.logging import MessageHub
from mmengine.model import BaseModel
from mmengine.optim import OptimWrapper

from mmflatten.engine.hooks.finite_loss import FiniteLossHook, NonFiniteLossError


class Scale(BaseModel):
    """Its loss is one learned number times the input."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, inputs, data_samples=None, mode='loss'):
        return dict(loss_a=(self.weight * inputs).sum(), loss_b=self.weight.sum() * 0 + 0.5, accuracy=inputs.mean())


@pytest.fixture
def trainer():
    """Runs the hook as a runner does: `trainer.step(number)` trains on one number."""
    model = Scale()
    optim = OptimWrapper(torch.optim.SGD(model.parameters(), lr=0.1))
    runner = SimpleNamespace(model=model, iter=0, epoch=1, message_hub=MessageHub(f'hub{id(model)}'))
    runner.message_hub.update_info('last_ckpt', 'work_dirs/x/epoch_1.pth')

    def step(value):
        model.train_step(dict(inputs=torch.tensor([value])), optim)
        runner.iter += 1

    return SimpleNamespace(runner=runner, step=step, model=model)


@pytest.mark.parametrize('value', [float('nan'), float('inf'), -float('inf')])
def test_training_stops_before_the_step(trainer, value):
    FiniteLossHook().before_train(trainer.runner)
    trainer.step(1.0)
    before = trainer.model.weight.clone()
    with pytest.raises(NonFiniteLossError) as raised:
        trainer.step(value)
    assert torch.equal(trainer.model.weight, before)
    message = str(raised.value)
    assert 'at iteration 2 (epoch 2)' in message
    assert f'loss={value}' in message and f'loss_a={value}' in message and 'loss_b=0.5' in message
    assert 'untouched: work_dirs/x/epoch_1.pth' in message


def test_longer_interval_reads_at_the_interval_and_names_the_range(trainer):
    FiniteLossHook(interval=4).before_train(trainer.runner)
    for value in (1.0, 1.0, 1.0, 1.0, 1.0, float('nan'), 1.0):
        trainer.step(value)
    with pytest.raises(NonFiniteLossError, match='between iterations 5 and 8'):
        trainer.step(1.0)


def test_longer_interval_still_reads_before_a_checkpoint(trainer):
    hook = FiniteLossHook(interval=100)
    hook.before_train(trainer.runner)
    trainer.step(1.0)
    hook.before_save_checkpoint(trainer.runner, {})
    trainer.step(float('nan'))
    with pytest.raises(NonFiniteLossError):
        hook.before_save_checkpoint(trainer.runner, {})


def test_model_is_as_before_after_training(trainer):
    hook = FiniteLossHook()
    hook.before_train(trainer.runner)
    hook.after_train(trainer.runner)
    assert 'parse_losses' not in vars(trainer.model)
    trainer.step(float('nan'))


def test_interval_below_one_is_refused():
    with pytest.raises(ValueError, match=r'interval \(0\) must be 1 or more'):
        FiniteLossHook(interval=0)
