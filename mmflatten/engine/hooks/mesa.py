"""MESA: averaged weights teach the model whose weights they average."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from mmengine.hooks import EMAHook
from mmengine.runner import Runner
from torch import Tensor, nn

from mmflatten.registry import HOOKS


@HOOKS.register_module()
class MesaEMAHook(EMAHook):
    """Averaged weights, and a second loss of a classifier: the cross-entropy with what they predict of the same images.

    They predict as in testing, without drop path and with averaged batch norms. Source: Sharpness-Aware Training for
    Free (Du et al., NeurIPS 2022), in the form that MILA's training has.

    Args:
        weight: of the second loss, `loss_mesa`.
        begin: the part of the training that passes before it.
        kwargs: of MMEngine's `EMAHook`; `momentum` is the share of the new weights.

    Raises:
        ValueError: a weight that is not positive, or a part that is none.
    """

    def __init__(self, weight: float = 1., begin: float = .25, **kwargs) -> None:
        super().__init__(**{'update_buffers': True, **kwargs})
        if weight <= 0 or not 0 <= begin < 1:
            raise ValueError(f'weight ({weight}) must be positive, and begin ({begin}) at least 0 and less than 1')
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
            taught = self.ema_model.module(batch['inputs'], mode='tensor').float().softmax(dim=-1)
        losses['loss_mesa'] = self.weight * F.cross_entropy(self.logits.float(), taught)
