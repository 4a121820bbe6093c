"""Stands in for mmcv's compiled extension; where a compiled `_ext.*.so` lies beside it, Python
imports that one.
"""

from mmcv_torch_ops.extension import *  # noqa: F403
from mmcv_torch_ops.extension import __getattr__  # noqa: F401
