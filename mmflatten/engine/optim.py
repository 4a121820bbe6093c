"""Optimizer wrapper for mixed precision without a GPU, frozen parameters, and learning rates of the
backbone.
"""

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from mmengine.optim import DefaultOptimWrapperConstructor, OptimWrapper
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from mmflatten.engine.models import bare_model
from mmflatten.ops import upcast
from mmflatten.registry import OPTIM_WRAPPER_CONSTRUCTORS, OPTIM_WRAPPERS


@OPTIM_WRAPPERS.register_module()
class CPUAmpOptimWrapper(OptimWrapper):
    """bfloat16 autocast in backbone and neck on the CPU; heads, losses, weights and optimizer stay
    in float32.

    MMEngine 0.10's `AmpOptimWrapper` requires an accelerator, and mmcv's operators on boxes do not
    support bfloat16 on the CPU, so heads are left out. A model without a backbone runs in autocast
    as a whole. bfloat16 has the range of float32, so losses are not scaled, and training may resume
    with either wrapper from a checkpoint of the other.

    Raises:
        ValueError: a parameter is on a GPU, where it would be trained in float32.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        devices: set[str] = set()
        for group in self.param_groups:
            devices.update(parameter.device.type for parameter in group['params'])
        elsewhere = devices - {'cpu', 'meta'}
        if elsewhere:
            raise ValueError(
                'optim_wrapper.type: mmflatten.CPUAmpOptimWrapper requires parameters on the CPU,'
                f' got {min(elsewhere)}. Use --amp, which chooses the wrapper for the device.'
            )

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        bare = bare_model(model)
        parts = [getattr(bare, name, None) for name in ('backbone', 'neck')]
        parts = [part for part in parts if part is not None] or [bare]
        entered: list[torch.autocast] = []

        def enter(module: nn.Module, inputs: tuple) -> None:
            entered.append(torch.autocast('cpu', torch.bfloat16))
            entered[-1].__enter__()

        def leave(module: nn.Module, inputs: tuple, output: Any) -> Any:
            entered.pop().__exit__(None, None, None)
            return tree_map_only(Tensor, lambda x: upcast(x)[0], output)

        with super().optim_context(model), ExitStack() as stack:
            for part in parts:
                stack.callback(part.register_forward_pre_hook(enter).remove)
                stack.callback(part.register_forward_hook(leave, always_call=True).remove)
            yield


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class OptimWrapperConstructor(DefaultOptimWrapperConstructor):
    """MMEngine's constructor, which does not warn about each frozen parameter.

    The parameter groups are the same. `frozen_summary` describes the frozen parameters in one line.
    """

    def add_params(
        self, params: list[dict], module: nn.Module, prefix: str = '', **kwargs: Any
    ) -> None:
        if _all_frozen(module):
            return
        super().add_params(params, _without_frozen(module), prefix, **kwargs)


def _all_frozen(module: nn.Module) -> bool:
    """Return True if a module has parameters and trains none of them."""
    trained = [parameter.requires_grad for parameter in module.parameters()]
    return bool(trained) and not any(trained)


def frozen_summary(model: nn.Module) -> str | None:
    """Describe the frozen parameters of a model by its parts, in one line. None if all parameters
    train.
    """
    if not count_frozen(model):
        return None
    total = _count(model)
    trained = total - count_frozen(model)
    frozen = []
    for name, part in bare_model(model).named_children():
        number = count_frozen(part)
        if number:
            frozen.append(f'{name} {number / 1e6:.3g} M of {_count(part) / 1e6:.3g} M')
    return (
        f'{trained / 1e6:.3g} M of {total / 1e6:.3g} M parameters train. Frozen:'
        f' {", ".join(frozen)}.'
    )


def count_frozen(module: nn.Module) -> int:
    """Number of parameters that do not train."""
    return sum(weight.numel() for weight in module.parameters() if not weight.requires_grad)


def _count(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def _without_frozen(module: nn.Module) -> nn.Module:
    """Return a shallow copy of a module without its own frozen parameters, or the module if it has
    none.
    """
    trained = {}
    for name, value in module._parameters.items():
        if value is None or value.requires_grad:
            trained[name] = value
    if len(trained) == len(module._parameters):
        return module
    view = copy.copy(module)
    view.__dict__['_parameters'] = trained
    return view


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class LayerDecayOptimWrapperConstructor(OptimWrapperConstructor):
    """The constructor with one more rule: `lr * layer_decay_rate ** (layers between a parameter and
    the head)`.

    The backbone's `get_layer_depth` gives the layer of a parameter: the embedding is the first, and
    each block is one more. Neck, heads and output norms have the full rate. The other rules of
    `paramwise_cfg` apply too.

        optim_wrapper = dict(
            constructor='mmflatten.LayerDecayOptimWrapperConstructor',
            paramwise_cfg=dict(layer_decay_rate=0.8, norm_decay_mult=0.0))
    """

    def _validate_cfg(self) -> None:
        super()._validate_cfg()
        rate = self.paramwise_cfg.get('layer_decay_rate')
        if not isinstance(rate, (int, float)) or not 0 < rate <= 1:
            raise ValueError(
                'paramwise_cfg.layer_decay_rate: expected a number above 0 and at most 1, got'
                f' {rate}. Without layer decay, remove optim_wrapper.constructor.'
            )
        if self.base_lr is None:
            raise ValueError('optimizer.lr: required with layer_decay_rate, which multiplies it.')

    def add_params(
        self, params: list[dict], module: nn.Module, prefix: str = '', **kwargs: Any
    ) -> None:
        super().add_params(params, module, prefix, **kwargs)
        if prefix:  # a part of the model
            return
        backbone = getattr(module, 'backbone', None)
        if not hasattr(backbone, 'get_layer_depth'):
            raise ValueError(
                'layer_decay_rate: requires a backbone with get_layer_depth, such as those of'
                f' mmflatten, got {type(backbone).__name__} in {type(module).__name__}.'
            )
        rate = self.paramwise_cfg['layer_decay_rate']
        names = {id(parameter): name for name, parameter in module.named_parameters()}
        for group in params:
            depth, number = backbone.get_layer_depth(names[id(group['params'][0])], 'backbone.')
            # The last layer and the heads have the full rate.
            group['lr_scale'] = rate ** (number - 1 - depth)
            group['lr'] = group.get('lr', self.base_lr) * group['lr_scale']


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class BackboneRateOptimWrapperConstructor(OptimWrapperConstructor):
    """The constructor with one more rule: `lr * backbone_lr_mult` for the parameters of the
    backbone.

    A `custom_keys` entry for the backbone would hide shorter keys and `norm_decay_mult` from its
    norms and position tables, because MMEngine applies only the longest matching key. Here the
    other rules of `paramwise_cfg` apply to the backbone too.

        optim_wrapper = dict(
            constructor='mmflatten.BackboneRateOptimWrapperConstructor',
            paramwise_cfg=dict(backbone_lr_mult=0.1, norm_decay_mult=0.0))
    """

    def _validate_cfg(self) -> None:
        super()._validate_cfg()
        factor = self.paramwise_cfg.get('backbone_lr_mult')
        if not isinstance(factor, (int, float)) or not 0 < factor <= 1:
            raise ValueError(
                'paramwise_cfg.backbone_lr_mult: expected a number above 0 and at most 1, got'
                f' {factor}. Without a rate of its own, remove optim_wrapper.constructor; to freeze'
                ' the backbone, set its frozen_stages.'
            )
        if self.base_lr is None:
            raise ValueError('optimizer.lr: required with backbone_lr_mult, which multiplies it.')

    def add_params(
        self, params: list[dict], module: nn.Module, prefix: str = '', **kwargs: Any
    ) -> None:
        super().add_params(params, module, prefix, **kwargs)
        if prefix:  # a part of the model
            return
        backbone = {id(parameter) for parameter in module.backbone.parameters()}
        for group in params:
            if id(group['params'][0]) in backbone:
                group['lr'] = group.get('lr', self.base_lr) * self.paramwise_cfg['backbone_lr_mult']
