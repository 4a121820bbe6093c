"""Stop training at the first loss that is NaN or infinite, before it reaches the weights."""
from typing import Any

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn

from mmflatten.engine.hooks.channels import bare_model
from mmflatten.registry import HOOKS


class NonFiniteLossError(ArithmeticError):
    """A training loss became NaN or infinite."""


@HOOKS.register_module()
class FiniteLossHook(Hook):
    """Check the losses that the model's forward pass returns, on every process, before the backward pass.

    MMEngine's hooks run after the optimizer's step, when the weights are NaN already and, with several processes, so
    are those of every other one; so this one listens to the model itself, with PyTorch's `register_forward_hook`.
    Infinite *gradients*, for which a gradient scaler skips a step, are normal and do not concern it.

    Args:
        interval (int): Steps between two readings. On a GPU each keeps the host from queueing the backward pass during
            the forward pass; with more than 1, the steps between are summed up on the device, read at the interval and
            before each checkpoint, and the error names a range.
    """

    priority = 'VERY_HIGH'

    def __init__(self, interval: int = 1) -> None:
        if interval < 1:
            raise ValueError(f'interval ({interval}) must be 1 or more')
        self.interval = interval
        self._all_finite: Tensor | None = None
        self._last_losses: dict[str, Tensor] = {}
        self._first_unread = 0

    def before_train(self, runner: Runner) -> None:
        self._first_unread = runner.iter

        def listen(model: nn.Module, args: tuple, kwargs: dict, losses: Any) -> None:
            if kwargs.get('mode') == 'loss' and isinstance(losses, dict):
                self._note(losses)
                if (runner.iter + 1) % self.interval == 0:
                    self._read(runner)

        self._handle = bare_model(runner.model).register_forward_hook(listen, with_kwargs=True)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        self._read(runner)

    def after_train(self, runner: Runner) -> None:
        self._handle.remove()

    def _note(self, losses: dict[str, Any]) -> None:
        # As MMEngine sums them up: the mean of each, of every item of a list too, if its name says that it is a loss.
        self._last_losses = {
            name: sum(item.detach().float().mean() for item in (value if isinstance(value, (list, tuple)) else [value]))
            for name, value in losses.items() if 'loss' in name}
        finite = torch.isfinite(sum(self._last_losses.values(), torch.zeros(())))
        self._all_finite = finite if self._all_finite is None else self._all_finite & finite

    def _read(self, runner: Runner) -> None:
        if self._all_finite is not None and not self._all_finite:
            raise NonFiniteLossError(self._message(runner))
        self._all_finite, self._first_unread = None, runner.iter + 1

    def _message(self, runner: Runner) -> str:
        now = runner.iter + 1
        first = self._first_unread + 1
        at = f'at iteration {now}' if first >= now else f'between iterations {first} and {now}'
        losses = ', '.join(f'{name}={value.item():.4g}' for name, value in self._last_losses.items())
        last_good = runner.message_hub.runtime_info.get('last_ckpt')
        return (f'the loss became NaN or infinite {at} (epoch {runner.epoch + 1}): {losses}; last good checkpoint, '
                f'untouched: {last_good or "none yet"}; lower the learning rate, clip gradients or train without '
                '--amp, then go on with --resume')
