"""Hooks of a training: stop at a NaN loss, log in the unit of the loop, and MESA."""
import math

import torch
import torch.nn.functional as F
from mmengine.hooks import EMAHook, Hook
from mmengine.hooks import LoggerHook as _LoggerHook
from mmengine.runner import EpochBasedTrainLoop, Runner
from torch import Tensor, nn

from mmflatten.registry import HOOKS


class NonFiniteError(ArithmeticError):
    """The loss or the weights of a training became NaN or infinite."""


@HOOKS.register_module()
class FiniteLossHook(Hook):
    """Stop at the first NaN or infinite loss on any process, before other hooks use the new weights.

    This adds no synchronization, because MMEngine reads the same numbers at every step for its message hub.
    """

    priority = 'VERY_HIGH'

    def after_train_iter(self, runner: Runner, batch_idx: int, data_batch: object = None,
                         outputs: dict | None = None) -> None:
        losses = {name: torch.as_tensor(value).item() for name, value in (outputs or {}).items() if 'loss' in name}
        if all(map(math.isfinite, losses.values())):
            return
        values = ', '.join(f'{name}={value:.4g}' for name, value in losses.items())
        last_good = runner.message_hub.runtime_info.get('last_ckpt')
        raise NonFiniteError(
            f'loss is NaN or infinite at iteration {runner.iter + 1} (epoch {runner.epoch + 1}): {values}. Last good '
            f'checkpoint: {last_good or "none yet"}. Lower the learning rate, clip gradients or train without --amp, '
            'then continue with --resume.')


@HOOKS.register_module()
class LoggerHook(_LoggerHook):
    """MMEngine's log hook with `log_metric_by_epoch` taken from the training loop.

    One runtime file then serves schedules by epochs and by iterations. The original files all validation metrics of an
    iteration-based training under epoch 0.
    """

    def before_train(self, runner: Runner) -> None:
        super().before_train(runner)
        self.log_metric_by_epoch = isinstance(runner.train_loop, EpochBasedTrainLoop)


@HOOKS.register_module()
class MesaEMAHook(EMAHook):
    """Moving average of the weights, and a second loss of a classifier: the cross-entropy with the average's output.

    The averaged model predicts as in testing, without drop path and with averaged batch norm statistics. Source:
    Sharpness-Aware Training for Free (Du et al., NeurIPS 2022), in the form used to train MILA.

    Args:
        weight: weight of the second loss, `loss_mesa`.
        begin: fraction of the training after which the second loss starts.
        kwargs: arguments of MMEngine's `EMAHook`. `momentum` is the weight of the new parameters.

    Raises:
        ValueError: `weight` is not positive, or `begin` is outside [0, 1).
    """

    def __init__(self, weight: float = 1., begin: float = .25, **kwargs) -> None:
        super().__init__(**{'update_buffers': True, **kwargs})
        if weight <= 0:
            raise ValueError(f'weight: expected a positive number, got {weight}.')
        if not 0 <= begin < 1:
            raise ValueError(f'begin: expected at least 0 and less than 1, got {begin}.')
        self.weight, self.begin, self.begun = weight, begin, False
        self.handles: list[torch.utils.hooks.RemovableHandle] = []

    def before_train(self, runner: Runner) -> None:
        super().before_train(runner)
        self.ema_model.eval()
        self.handles = [self.src_model.head.register_forward_hook(self._keep_logits),
                        self.src_model.register_forward_hook(self._add_loss, with_kwargs=True)]

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: object = None) -> None:
        self.begun = runner.iter >= int(self.begin * runner.max_iters)

    def after_train(self, runner: Runner) -> None:
        super().after_train(runner)
        for handle in self.handles:
            handle.remove()

    def _keep_logits(self, head: nn.Module, features: tuple, logits: Tensor) -> None:
        self.logits = logits

    def _add_loss(self, model: nn.Module, args: tuple, batch: dict, losses: dict) -> None:
        if not self.begun or batch.get('mode') != 'loss':
            return
        with torch.no_grad():
            target = self.ema_model.module(batch['inputs'], mode='tensor').float().softmax(dim=-1)
        losses['loss_mesa'] = self.weight * F.cross_entropy(self.logits.float(), target)
