"""Hooks of a training: read and check its losses, compile, log in the unit of the loop, and
MESA.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from mmengine.hooks import EMAHook, Hook
from mmengine.hooks import LoggerHook as _LoggerHook
from mmengine.hooks import RuntimeInfoHook as _RuntimeInfoHook
from mmengine.optim import OptimWrapper
from mmengine.runner import EpochBasedTrainLoop, Runner
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from mmflatten.engine.models import bare_model
from mmflatten.models.layers import Block
from mmflatten.registry import HOOKS


class NonFiniteError(ArithmeticError):
    """The loss or the weights of a training became NaN or infinite."""


@HOOKS.register_module()
class RuntimeInfoHook(_RuntimeInfoHook):
    """MMEngine's hook, which reads losses and gradient norms from the device once per logging
    interval.

    The original waits for the device at every step, once per value. The message hub receives the
    same values of every step, but only when the log hook needs them, before a validation and before
    a checkpoint. Every hook is then called with `after_read_scalars(runner, steps)`, where `steps`
    holds the iteration and the losses of each step.

    Args:
        interval (int | None): steps between two readings. None (default) uses the interval of the
            log hook.
    """

    def __init__(self, interval: int | None = None) -> None:
        super().__init__()
        self.interval = interval
        # iteration and values of each step since the last reading, on their devices
        self.steps: list[tuple[int, dict[str, Any]]] = []
        self.norms: dict[str, Tensor] = {}  # of the gradients of this step

    def before_train(self, runner: Runner) -> None:
        super().before_train(runner)
        if self.interval is None:
            intervals = [hook.interval for hook in runner.hooks if isinstance(hook, _LoggerHook)]
            self.interval = intervals[0] if intervals else 1
        if getattr(runner.optim_wrapper, 'clip_grad_kwargs', None):
            self._keep_norms(runner.optim_wrapper)

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: object = None, outputs: dict | None = None
    ) -> None:
        values = {**self.norms, **(outputs or {})}
        self.norms = {}
        for name, value in values.items():
            if isinstance(value, DTensor):
                value = value.full_tensor()
            # A copy, because a compiled step may reuse its memory. float64 holds all types exactly.
            if isinstance(value, Tensor):
                values[name] = value.detach().to(torch.float64)
        self.steps.append((runner.iter, values))
        epoch_ends = self.end_of_epoch(runner.train_dataloader, batch_idx)
        if epoch_ends or self.every_n_inner_iters(batch_idx, self.interval):
            self.read_scalars(runner)

    def before_val(self, runner: Runner) -> None:
        self.read_scalars(runner)
        super().before_val(runner)

    def after_train(self, runner: Runner) -> None:
        self.read_scalars(runner)
        super().after_train(runner)

    def read_scalars(self, runner: Runner) -> None:
        """Read the values since the last reading, with one transfer from the device."""
        steps, self.steps = self.steps, []
        tensors = []
        for _, values in steps:
            for value in values.values():
                if isinstance(value, Tensor):
                    tensors.append(value.reshape(()))
        numbers = iter(torch.stack(tensors).tolist() if tensors else ())
        for _, values in steps:
            for name, value in values.items():
                if isinstance(value, Tensor):
                    values[name] = next(numbers)
                runner.message_hub.update_scalar(f'train/{name}', values[name])
        runner.call_hook('after_read_scalars', steps=steps)

    def _keep_norms(self, wrapper: OptimWrapper) -> None:
        """Make an optimizer wrapper leave the gradient norm on the device, for `norms`."""
        clip = wrapper.clip_func
        self.norms = {}

        # The wrapper of MMEngine 0.10 reads the result at once, unless it is None.
        def keep_norm(*args: Any, **kwargs: Any) -> None:
            norm = clip(*args, **kwargs)
            if norm is not None:
                self.norms[wrapper.grad_name] = norm

        wrapper.clip_func = keep_norm


@HOOKS.register_module()
class FiniteLossHook(Hook):
    """Stop at a NaN or infinite loss on any process when it is read: within a logging interval,
    before a checkpoint.

    The message names the first step with such a loss. With MMEngine's RuntimeInfoHook, losses are
    checked at each step.
    """

    priority = 'VERY_HIGH'

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: object = None, outputs: dict | None = None
    ) -> None:
        if outputs and not any(isinstance(hook, RuntimeInfoHook) for hook in runner.hooks):
            self.after_read_scalars(runner, [(runner.iter, outputs)])

    def after_read_scalars(self, runner: Runner, steps: Iterable[tuple[int, dict]]) -> None:
        for step, values in steps:
            losses = {name: float(value) for name, value in values.items() if 'loss' in name}
            if all(map(math.isfinite, losses.values())):
                continue
            shown = ', '.join(f'{name}={value:.4g}' for name, value in losses.items())
            last_good = runner.message_hub.runtime_info.get('last_ckpt')
            raise NonFiniteError(
                f'loss is NaN or infinite at iteration {step + 1} (epoch {runner.epoch + 1}):'
                f' {shown}. Last good checkpoint: {last_good or "none yet"}. Lower the learning'
                ' rate, clip gradients or train without --amp, then continue with --resume.'
            )


@HOOKS.register_module()
class CompileHook(Hook):
    """Compile the backbone with `torch.compile` before the first step, block by block. Names of
    weights do not change.

    Blocks of one kind share their compiled code. It is compiled for the first image size, and for
    the second with open sizes. A backbone of another library is compiled as a whole. MMEngine's own
    `compile` setting compiles the whole training step, with the loss and the optimizer.

    Args:
        backend: of `torch.compile`.
        limit: compilations per block, on average; more raise an error in place of running eagerly.
        graphs: compile the backbone as a whole, for each size and batch, and launch it as CUDA
            graphs, forward and backward.
    """

    def __init__(self, backend: str = 'inductor', limit: int = 3, graphs: bool = False) -> None:
        self.backend = backend
        self.limit = limit
        self.graphs = graphs

    def before_train(self, runner: Runner) -> None:
        import torch._dynamo.config as dynamo

        model = bare_model(runner.model)
        backbone = getattr(model, 'backbone', None)
        if backbone is None:
            raise ValueError(
                f'--compile: requires a model with a backbone, got {type(model).__name__}.'
            )
        parts = [module for module in backbone.modules() if isinstance(module, Block)]
        options: dict[str, Any] = {}
        if self.graphs:
            parts = []
            options = dict(dynamic=False, fullgraph=True)
            # What a graph cannot hold is an error in place of running without one.
            options['options'] = {'triton.cudagraphs': True, 'triton.cudagraph_or_error': True}
        parts = parts or [backbone]
        # The names of PyTorch 2.6, which newer versions keep.
        dynamo.cache_size_limit = self.limit * len(parts)
        dynamo.fail_on_cache_limit_hit = True
        for part in parts:
            part.compile(backend=self.backend, **options)

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: object = None, outputs: dict | None = None
    ) -> None:
        if not self.graphs:
            return
        # The next step writes to the memory of gradients that are still accumulated.
        for parameter in bare_model(runner.model).backbone.parameters():
            if parameter.grad is not None:
                parameter.grad = parameter.grad.clone()


@HOOKS.register_module()
class LoggerHook(_LoggerHook):
    """MMEngine's log hook with `log_metric_by_epoch` taken from the training loop, and a line on
    the first iteration.

    One runtime file then serves schedules by epochs and by iterations. MMEngine's hook logs all
    validation metrics of an iteration-based training under epoch 0, and its first line after
    `interval` iterations, which may take minutes.
    """

    def before_train(self, runner: Runner) -> None:
        super().before_train(runner)
        self.log_metric_by_epoch = isinstance(runner.train_loop, EpochBasedTrainLoop)
        self.first = runner.iter

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: object = None, outputs: dict | None = None
    ) -> None:
        if runner.iter == self.first and self.interval > 1:
            seconds = runner.message_hub.get_scalar('train/time').current()
            runner.logger.info(
                f'Iteration {runner.iter + 1} of {runner.max_iters} took {seconds:.1f} s. Losses'
                f' follow every {self.interval} iterations.'
            )
        super().after_train_iter(runner, batch_idx, data_batch=data_batch, outputs=outputs)


@HOOKS.register_module()
class MesaEMAHook(EMAHook):
    """Moving average of the weights, and a second loss of a classifier: the cross-entropy with the
    average's output.

    The averaged model predicts as in testing, without drop path and with averaged batch norm
    statistics. Source: Sharpness-Aware Training for Free (Du et al., NeurIPS 2022), in the form
    used to train MILA.

    Args:
        weight: weight of the second loss, `loss_mesa`.
        begin: fraction of the training after which the second loss starts.
        kwargs: arguments of MMEngine's `EMAHook`. `momentum` is the weight of the new parameters.

    Raises:
        ValueError: `weight` is not positive, or `begin` is outside [0, 1).
    """

    def __init__(self, weight: float = 1.0, begin: float = 0.25, **kwargs) -> None:
        super().__init__(**{'update_buffers': True, **kwargs})
        if weight <= 0:
            raise ValueError(f'weight: expected a positive number, got {weight}.')
        if not 0 <= begin < 1:
            raise ValueError(f'begin: expected at least 0 and less than 1, got {begin}.')
        self.weight, self.begin = weight, begin
        self.begun = False
        self.handles: list[torch.utils.hooks.RemovableHandle] = []

    def before_train(self, runner: Runner) -> None:
        super().before_train(runner)
        self.ema_model.eval()
        self.handles = [
            self.src_model.head.register_forward_hook(self._keep_logits),
            self.src_model.register_forward_hook(self._add_loss, with_kwargs=True),
        ]

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
