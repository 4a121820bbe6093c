"""Stop training at the first loss that is NaN or infinite, before it reaches the weights."""

import torch
from mmengine.hooks import Hook
from mmengine.model import is_model_wrapper
from mmengine.runner import Runner

from mmflatten.registry import HOOKS


class NonFiniteLossError(ArithmeticError):
    """A training loss became NaN or infinite."""


@HOOKS.register_module()
class FiniteLossHook(Hook):
    """Check the summed loss between forward and backward of a step.

    MMEngine's hooks run after the optimizer's step, when the weights are NaN already and, with several processes, so
    are those of every other one. This hook therefore guards `model.parse_losses`, which every step calls on its own
    process right before the backward pass, wrapped in DistributedDataParallel or not.

    Reading the loss makes the host wait for the forward pass. MMEngine waits for the device once per step anyway
    (it reads every loss for the log), so on the CPU the check costs microseconds; on a GPU it keeps the host from
    queueing the backward pass during the forward pass. A larger `interval` removes that: the steps between are
    summed up on the device, read at the interval and before each checkpoint, and the error then names a range.
    Skipped steps of a gradient scaler (infinite *gradients* in mixed precision) are normal and do not concern it.

    Args:
        interval (int): Steps between two readings. Default 1.
    """

    priority = 'VERY_HIGH'

    def __init__(self, interval: int = 1) -> None:
        if interval < 1:
            raise ValueError(f'interval ({interval}) must be 1 or more')
        self.interval = interval
        self._all_finite: torch.Tensor | None = None
        self._last_losses: dict[str, torch.Tensor] = {}
        self._first_unread = 0

    def before_train(self, runner: Runner) -> None:
        model = runner.model.module if is_model_wrapper(runner.model) else runner.model
        parse_losses = model.parse_losses
        self._first_unread = runner.iter

        def guarded(losses: dict) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
            loss, log_vars = parse_losses(losses)
            finite = loss.detach().isfinite().all()
            self._all_finite = finite if self._all_finite is None else self._all_finite & finite
            self._last_losses = log_vars
            if (runner.iter + 1) % self.interval == 0:
                self._read(runner)
            return loss, log_vars

        model.parse_losses = guarded

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        self._read(runner)

    def after_train(self, runner: Runner) -> None:
        model = runner.model.module if is_model_wrapper(runner.model) else runner.model
        del model.parse_losses

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
