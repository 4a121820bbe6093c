"""Stop training at the first NaN or infinite loss, before the weights are saved."""
import math

from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmflatten.registry import HOOKS


class NonFiniteLossError(ArithmeticError):
    """A training loss became NaN or infinite."""


@HOOKS.register_module()
class FiniteLossHook(Hook):
    """Check the losses of every step on every process, before other hooks use the new weights.

    This adds no synchronization, because MMEngine reads the same numbers at every step for its message hub.
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
            f'loss is NaN or infinite at iteration {runner.iter + 1} (epoch {runner.epoch + 1}): {values}. Last good '
            f'checkpoint: {last_good or "none yet"}. Lower the learning rate, clip gradients or train without --amp, '
            'then continue with --resume.')
