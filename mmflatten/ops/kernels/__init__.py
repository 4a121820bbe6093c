"""Fused kernels for CUDA GPUs, behind operators of PyTorch; `docs/kernels.md` says when they run."""
from mmflatten.ops.kernels.attention import fused_linear_attention
from mmflatten.ops.kernels.convolution import token_convolution
from mmflatten.ops.kernels.pick import has_triton, pick_kernel

__all__ = ['fused_linear_attention', 'has_triton', 'pick_kernel', 'token_convolution']
