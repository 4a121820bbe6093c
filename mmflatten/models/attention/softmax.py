"""Softmax attention."""
from __future__ import annotations

import torch
from torch import Tensor

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.layers import RelativePositionBias
from mmflatten.ops import merge_heads, softmax_attention, split_heads
from mmflatten.registry import MODELS


@MODELS.register_module()
class SoftmaxAttention(TokenMixer):
    """Scaled dot-product attention, with Swin's relative position bias where asked for.

    Args:
        relative_position_bias: add a learned bias per head and offset; the map must then have `grid_size`, as the
            windows of `Windowed` do.
    """

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *,
                 relative_position_bias: bool = False, **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.relative_position_bias = RelativePositionBias(grid_size, num_heads) if relative_position_bias else None

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, hw_shape: tuple[int, int],
               kv_shape: tuple[int, int], mask: Tensor | None) -> Tensor:
        q_BhNd, k_BhMd, v_BhMd = (split_heads(x, self.num_heads) for x in (q_BNC, k_BMC, v_BMC))
        if self.relative_position_bias is not None:
            self._check_map(q_BNC, k_BMC, hw_shape)
        return merge_heads(softmax_attention(q_BhNd, k_BhMd, v_BhMd, bias=self._bias(q_BNC, mask)))

    def _check_map(self, q_BNC: Tensor, k_BMC: Tensor, hw_shape: tuple[int, int]) -> None:
        window = self.relative_position_bias.window_size
        if tuple(hw_shape) != window or not q_BNC.shape[1] == k_BMC.shape[1] == window[0] * window[1]:
            raise ValueError(f'relative_position_bias is for maps of {window} with neither reduced keys nor tokens '
                             f'before the map; got {tuple(hw_shape)}, {q_BNC.shape[1]} queries and {k_BMC.shape[1]} '
                             'keys. Put the mixer into windows, as FLattenSwin does with linear_window.')

    def _bias(self, q_BNC: Tensor, mask: Tensor | None) -> Tensor | None:
        """Bias and mask of the logits in one tensor, broadcastable to `(B, h, N, M)`."""
        bias = None if self.relative_position_bias is None else self.relative_position_bias()
        if mask is None:
            return bias
        mask = torch.zeros_like(mask, dtype=q_BNC.dtype).masked_fill_(~mask, -torch.inf)[:, None]
        bias = mask if bias is None else bias + mask
        return bias.repeat(q_BNC.shape[0] // bias.shape[0], 1, 1, 1)
