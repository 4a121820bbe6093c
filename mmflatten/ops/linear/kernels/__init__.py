"""Fused kernels of linear attention for CUDA GPUs as a PyTorch operator: `docs/kernels.md`."""

from mmflatten.ops.linear.kernels.attention import fused_linear_attention
from mmflatten.ops.linear.kernels.pick import (
    has_triton,
    kernels_enabled,
    pick_kernel,
    set_kernels_enabled,
)

__all__ = [
    'fused_linear_attention',
    'has_triton',
    'kernels_enabled',
    'pick_kernel',
    'set_kernels_enabled',
]
