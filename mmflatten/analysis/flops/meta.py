"""Models on the meta device: parameters without memory, kernels that know only the shape of their result."""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from mmengine.config import ConfigDict
from mmengine.registry import MODELS, DefaultScope
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import is_lazy

from mmflatten.analysis.flops.counter import OperationCounter
from mmflatten.analysis.flops.rules import deformable_conv


@contextmanager
def parameters_on_meta() -> Iterator[None]:
    """Modules built inside keep their parameters on the meta device, so their initialisation costs nothing.

    Everything else a constructor computes (drop path rates, index tables) stays on the CPU and keeps its values.
    """

    def to_meta(module: nn.Module, name: str, parameter: nn.Parameter | None) -> nn.Parameter | None:
        if parameter is None or is_lazy(parameter) or parameter.is_meta:
            return None  # it is registered as it is
        return nn.Parameter(torch.empty_like(parameter, device='meta'), requires_grad=parameter.requires_grad)

    hook = register_module_parameter_registration_hook(to_meta)
    try:
        yield
    finally:
        hook.remove()


def build_on_meta(model: dict, scope: str) -> nn.Module:
    """Build a config's `model`, of this `default_scope`, on the meta device in evaluation mode, without its weights."""
    with parameters_on_meta(), DefaultScope.overwrite_default_scope(scope):
        return MODELS.build(ConfigDict(model)).to('meta').eval()


@contextmanager
def shape_only_kernels(counter: OperationCounter) -> Iterator[None]:
    """Let three compiled operators of mmcv run on meta tensors: a kernel counts and leaves the output as it is.

    They are functions of `mmcv._ext` that PyTorch's dispatcher does not see, so there is no other place to count them;
    they are put back at the end. Every other operator of mmcv raises on meta tensors; none counts as zero.
    """
    kernels: dict[str, Callable[..., None]] = {
        'roi_align_forward': lambda features, rois, output, *args, **kwargs:
            counter.add_elementwise('mmcv::roi_align', output),
        'deform_conv_forward': lambda x, weight, offset, output, *args, **kwargs:
            counter.add('mmcv::deform_conv', deformable_conv(weight, output)),
        'modulated_deform_conv_forward': lambda x, weight, bias, ones, offset, mask, output, *args, **kwargs:
            counter.add('mmcv::deform_conv', deformable_conv(weight, output)),
    }
    extension = vars(sys.modules['mmcv._ext']) if 'mmcv._ext' in sys.modules else {}
    originals = {name: extension[name] for name in kernels if extension}
    try:
        extension.update(kernels)
        yield
    finally:
        extension.update(originals)
