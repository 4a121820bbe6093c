"""Models on the meta device: parameters take no memory, and operators compute shapes only."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from mmengine.config import ConfigDict
from mmengine.registry import MODELS, DefaultScope
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import is_lazy


@contextmanager
def parameters_on_meta() -> Iterator[None]:
    """Context in which modules are built with parameters on the meta device, so that initialisation
    costs nothing.

    Everything else that a constructor computes (drop path rates, index tables) stays on the CPU.
    """

    def to_meta(
        module: nn.Module, name: str, parameter: nn.Parameter | None
    ) -> nn.Parameter | None:
        if parameter is None or is_lazy(parameter) or parameter.is_meta:
            return None  # registers it unchanged
        return nn.Parameter(
            torch.empty_like(parameter, device='meta'), requires_grad=parameter.requires_grad
        )

    hook = register_module_parameter_registration_hook(to_meta)
    try:
        yield
    finally:
        hook.remove()


def build_on_meta(model: dict, scope: str) -> nn.Module:
    """Build a config's `model` on the meta device, in evaluation mode; `scope` is its
    `default_scope`.
    """
    model = ConfigDict(copy.deepcopy(model))  # mmdet's DETRs write into the config of their head
    with parameters_on_meta(), DefaultScope.overwrite_default_scope(scope):
        built = MODELS.build(model).to('meta').eval()
    for module in built.modules():
        # RoIAlign: a compiled mmcv has no kernel for the meta device
        if hasattr(module, 'use_torchvision'):
            module.use_torchvision = True
    return built
