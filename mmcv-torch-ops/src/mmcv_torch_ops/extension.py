"""The contents of `mmcv._ext`: every operator of mmdet, mmseg and mmpretrain, and a clear error for
the others.

Names, arguments and results are those of mmcv's compiled extension, which is called from
`mmcv.ops`: most functions write into tensors that the caller has allocated. `mmcv.ops` wraps them
in autograd functions, so each operator consists of a forward and a backward function.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import mmcv
import torch

from mmcv_torch_ops import __version__
from mmcv_torch_ops.boxes import bbox_overlaps, line_nms_forward, nms, nms_match, softnms
from mmcv_torch_ops.carafe import (
    carafe_backward,
    carafe_forward,
    carafe_naive_backward,
    carafe_naive_forward,
)
from mmcv_torch_ops.deform_attention import ms_deform_attn_backward, ms_deform_attn_forward
from mmcv_torch_ops.deform_conv import (
    deform_conv_backward_input,
    deform_conv_backward_parameters,
    deform_conv_forward,
    modulated_deform_conv_backward,
    modulated_deform_conv_forward,
)
from mmcv_torch_ops.deform_roi_pool import deform_roi_pool_backward, deform_roi_pool_forward
from mmcv_torch_ops.focal_loss import (
    sigmoid_focal_loss_backward,
    sigmoid_focal_loss_forward,
    softmax_focal_loss_backward,
    softmax_focal_loss_forward,
)
from mmcv_torch_ops.masked_conv import masked_col2im_forward, masked_im2col_forward
from mmcv_torch_ops.missing import MISSING
from mmcv_torch_ops.psa_mask import psamask_backward, psamask_forward
from mmcv_torch_ops.roi_align import roi_align_backward, roi_align_forward
from mmcv_torch_ops.roi_pool import roi_pool_backward, roi_pool_forward

__all__ = [
    'bbox_overlaps',
    'carafe_backward',
    'carafe_forward',
    'carafe_naive_backward',
    'carafe_naive_forward',
    'deform_conv_backward_input',
    'deform_conv_backward_parameters',
    'deform_conv_forward',
    'deform_roi_pool_backward',
    'deform_roi_pool_forward',
    'get_compiler_version',
    'get_compiling_cuda_version',
    'line_nms_forward',
    'masked_col2im_forward',
    'masked_im2col_forward',
    'modulated_deform_conv_backward',
    'modulated_deform_conv_forward',
    'ms_deform_attn_backward',
    'ms_deform_attn_forward',
    'nms',
    'nms_match',
    'psamask_backward',
    'psamask_forward',
    'roi_align_backward',
    'roi_align_forward',
    'roi_pool_backward',
    'roi_pool_forward',
    'sigmoid_focal_loss_backward',
    'sigmoid_focal_loss_forward',
    'softmax_focal_loss_backward',
    'softmax_focal_loss_forward',
    'softnms',
]

# a folder that an uninstalled mmcv left has no version
_MMCV = getattr(mmcv, '__version__', '0.0 (no package)')
if not (2, 0) <= tuple(int(part) for part in re.findall(r'\d+', _MMCV)[:2]) <= (2, 3):
    raise ImportError(
        f'mmcv-torch-ops {__version__} fits mmcv 2.0 to 2.3, got mmcv {_MMCV}. '
        'Install the maintained one: pip install "onedl-mmcv>=2.3,<2.4"'
    )


def get_compiler_version() -> str:
    """Return the version of this package, which `mmcv.utils.collect_env` prints as the compiler."""
    return f'none, mmcv-torch-ops {__version__}'


def get_compiling_cuda_version() -> str:
    """Return the CUDA version that PyTorch was built for, or 'not available'."""
    return torch.version.cuda or 'not available'


def __getattr__(name: str) -> Callable[..., Any]:
    """Return a function that explains what to do, for the operators of mmcv that are missing
    here.
    """
    if name not in MISSING:
        raise AttributeError(f'mmcv has no operator {name!r}')

    def missing(*args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            f'{name} ({MISSING[name]}) is not in mmcv-torch-ops. Compile mmcv for it, with a C++'
            ' compiler and, for a GPU, the CUDA toolkit of your PyTorch: pip install'
            ' --no-cache-dir --force-reinstall --no-deps --no-build-isolation'
            f' onedl-mmcv=={mmcv.__version__}'
        )

    missing.__name__ = name
    return missing
