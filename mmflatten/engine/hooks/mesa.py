"""MESA: the moving average of the weights teaches the model."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from mmengine.hooks import EMAHook
from mmengine.runner import Runner
from torch import Tensor, nn

from mmflatten.registry import HOOKS


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
