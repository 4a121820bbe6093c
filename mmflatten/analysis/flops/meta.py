"""Models on the meta device: parameters without memory, kernels that know only the shape of their result."""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import prod
from typing import Any

import torch
from mmengine.config import ConfigDict
from mmengine.registry import MODELS, DefaultScope
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import is_lazy

from mmflatten.analysis.flops.counter import OperationCounter
from mmflatten.analysis.flops.rules import CONV


@contextmanager
def parameters_on_meta() -> Iterator[None]:
    """Modules built inside keep their parameters on the meta device, so their initialisation costs nothing.

    Everything else a constructor computes (drop path rates, index tables) stays on the CPU and keeps its values.
    """

    def to_meta(module: nn.Module, name: str, parameter: nn.Parameter | None) -> nn.Parameter | None:
        if parameter is None or is_lazy(parameter) or parameter.is_meta:
            return None
        return nn.Parameter(torch.empty_like(parameter, device='meta'), requires_grad=parameter.requires_grad)

    hook = register_module_parameter_registration_hook(to_meta)
    try:
        yield
    finally:
        hook.remove()


def build_on_meta(model: dict, scope: str) -> nn.Module:
    """Build a config's model on the meta device, in evaluation mode, without loading or initialising weights.

    Args:
        model: the config's `model`.
        scope: its `default_scope`.
    """
    with parameters_on_meta(), DefaultScope.overwrite_default_scope(scope):
        return MODELS.build(ConfigDict(model)).to('meta').eval()


@contextmanager
def shape_only_kernels(counter: OperationCounter) -> Iterator[None]:
    """Give the operators that cannot run on meta tensors a kernel that counts and leaves the result's shape.

    They are compiled operators of mmcv, which PyTorch's dispatcher does not see, and RoI extractors, which sort
    proposals by their size. An operator of mmcv without such a kernel raises on meta tensors; none counts as zero.
    """
    with ExitStack() as replacements:
        if 'mmcv._ext' in sys.modules:
            for name, kernel in _mmcv_kernels(counter).items():
                replacements.enter_context(_replaced(sys.modules['mmcv._ext'], name, kernel))
        if 'mmdet.models' in sys.modules:
            extractor = sys.modules['mmdet.models'].SingleRoIExtractor
            replacements.enter_context(_replaced(extractor, 'forward', _extract_rois(counter)))
        yield


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


def _mmcv_kernels(counter: OperationCounter) -> dict[str, Callable[..., None]]:
    """Kernels of `mmcv._ext`; all of them write into an output that their caller made."""

    def roi_align(features: Tensor, rois: Tensor, output: Tensor, *args: Any, **kwargs: Any) -> None:
        counter.add_elementwise('mmcv::roi_align', output)

    def deform_conv(x: Tensor, weight: Tensor, offset: Tensor, output: Tensor, *args: Any, **kwargs: Any) -> None:
        counter.add('mmcv::deform_conv', {CONV: output.shape[0] * prod(output.shape[2:]) * weight.numel()})

    def modulated_deform_conv(x: Tensor, weight: Tensor, bias: Tensor, ones: Tensor, offset: Tensor, mask: Tensor,
                              output: Tensor, *args: Any, **kwargs: Any) -> None:
        deform_conv(x, weight, offset, output)

    return {'roi_align_forward': roi_align, 'deform_conv_forward': deform_conv,
            'modulated_deform_conv_forward': modulated_deform_conv}


def _extract_rois(counter: OperationCounter) -> Callable[..., Tensor]:

    def forward(self: nn.Module, feats: tuple[Tensor, ...], rois: Tensor, roi_scale_factor: float | None = None
                ) -> Tensor:
        out = feats[0].new_empty(rois.shape[0], self.out_channels, *self.roi_layers[0].output_size)
        counter.add_elementwise('mmcv::roi_align', out)
        return out

    return forward
