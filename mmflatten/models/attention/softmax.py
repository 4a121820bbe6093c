"""Softmax attention."""

from __future__ import annotations

import torch
from einops import repeat
from torch import Tensor

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps
from mmflatten.models.layers import RelativePositionBias, TokenConv
from mmflatten.ops import softmax_attention
from mmflatten.registry import MODELS


class InputConv(TokenConv):
    """Depthwise convolution of the mixer's input, in the place of one of the values."""

    def forward(self, v_BMC: Tensor, maps: Maps) -> Tensor:  # type: ignore[override]
        return super().forward(maps.extra[-1], maps.hw)


@MODELS.register_module()
class SoftmaxAttention(TokenMixer):
    """Scaled dot-product attention, optionally with Swin's relative position bias.

    Args:
        relative_position_bias: add a learned bias per head and offset. The size of the map must
            then be `grid_size`, as in the windows of `Windowed`.
        input_kernel: kernel size of a depthwise convolution of the input that is added to the
            result (BiFormer); 0 for none.
    """

    has_logits = True

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        relative_position_bias: bool = False,
        input_kernel: int = 0,
        **kwargs,
    ) -> None:
        if input_kernel:
            self.extra_inputs = (*self.extra_inputs, 'x')
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.relative_position_bias = (
            RelativePositionBias(grid_size, num_heads) if relative_position_bias else None
        )
        self.lepe = InputConv(embed_dims, input_kernel) if input_kernel else None

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        if self.relative_position_bias is not None:
            self._check_maps(maps, self.relative_position_bias.window_size)
        return softmax_attention(q_BhNd, k_BhMd, v_BhMd, bias=self._bias(q_BhNd, maps.mask))

    @staticmethod
    def _check_maps(maps: Maps, window: tuple[int, int]) -> None:
        if maps.hw != window or maps.kv_hw != window or maps.prefix:
            raise ValueError(
                f'relative_position_bias: expected a map of {window} without reduced keys or prefix'
                f' tokens, got {maps.hw} with keys of {maps.kv_hw} and {maps.prefix} prefix tokens.'
                ' Run the mixer in windows, as FLattenSwin does with linear_window.'
            )

    def _bias(self, q_BhNd: Tensor, mask: Tensor | None) -> Tensor | None:
        """Sum of bias and mask of the logits, broadcastable to `(B, h, N, M)`."""
        bias = None if self.relative_position_bias is None else self.relative_position_bias()
        if mask is None:
            return bias
        hidden = torch.zeros_like(mask, dtype=q_BhNd.dtype).masked_fill_(~mask, -torch.inf)[:, None]
        bias = hidden if bias is None else bias + hidden
        return repeat(bias, 'W h N M -> (B W) h N M', B=q_BhNd.shape[0] // bias.shape[0])
