"""Mixed precision without a GPU."""
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from mmengine.optim import OptimWrapper
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from mmflatten.engine.hooks.channels import bare_model
from mmflatten.ops import upcast
from mmflatten.registry import OPTIM_WRAPPERS


@OPTIM_WRAPPERS.register_module()
class CPUAmpOptimWrapper(OptimWrapper):
    """bfloat16 autocast in backbone and neck on the CPU; heads, losses, weights and optimizer stay in float32.

    MMEngine 0.10's `AmpOptimWrapper` requires an accelerator, and mmcv's operators on boxes do not support bfloat16 on
    the CPU, so heads are left out. A model without a backbone runs in autocast as a whole. bfloat16 has the range of
    float32, so losses are not scaled, and training may resume with either wrapper from a checkpoint of the other.

    Raises:
        ValueError: a parameter is on a GPU, where it would be trained in float32.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        devices = {parameter.device.type for group in self.param_groups for parameter in group['params']}
        if elsewhere := devices - {'cpu', 'meta'}:
            raise ValueError(f'optim_wrapper.type: mmflatten.CPUAmpOptimWrapper requires parameters on the CPU, got '
                             f'{min(elsewhere)}. Use --amp, which chooses the wrapper for the device.')

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        bare = bare_model(model)
        parts = [part for name in ('backbone', 'neck') if (part := getattr(bare, name, None)) is not None]
        with super().optim_context(model), _autocast_inside(parts or [bare]):
            yield


@contextmanager
def _autocast_inside(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Run the forward passes of `modules` in bfloat16 autocast and return their outputs in float32."""
    entered: list[torch.autocast] = []

    def enter(module: nn.Module, inputs: tuple) -> None:
        entered.append(torch.autocast('cpu', torch.bfloat16))
        entered[-1].__enter__()

    def leave(module: nn.Module, inputs: tuple, output: Any) -> Any:
        entered.pop().__exit__(None, None, None)
        return tree_map_only(Tensor, lambda x: upcast(x)[0], output)

    handles = [handle for module in modules for handle in (
        module.register_forward_pre_hook(enter), module.register_forward_hook(leave, always_call=True))]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
