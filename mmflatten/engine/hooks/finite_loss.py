"""Stop training at the first loss that is NaN or infinite, before the weights it spoils are saved."""
import math

from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmflatten.registry import HOOKS


class NonFiniteLossError(ArithmeticError):
    """A training loss became NaN or infinite."""


@HOOKS.register_module()
class FiniteLossHook(Hook):
    """Look at the losses of every step, on every process, before any other hook sees or saves the new weights.

    It costs no time of its own: MMEngine reads the same numbers in every step, for its message hub.
    """

    priority = 'VERY_HIGH'

    def after_train_iter(self, runner: Runner, batch_idx: int, data_batch: object = None,
                         outputs: dict | None = None) -> None:
        losses = {name: float(value) for name, value in (outputs or {}).items() if 'loss' in name}
        if all(map(math.isfinite, losses.values())):
            return
        values = ', '.join(f'{name}={value:.4g}' for name, value in losses.items())
        last_good = runner.message_hub.runtime_info.get('last_ckpt')
        raise NonFiniteLossError(
            f'the loss became NaN or infinite at iteration {runner.iter + 1} (epoch {runner.epoch + 1}): {values}; '
            f'last good checkpoint, untouched: {last_good or "none yet"}; lower the learning rate, clip gradients or '
            'train without --amp, then go on with --resume')
