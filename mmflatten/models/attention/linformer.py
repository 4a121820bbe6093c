"""Linformer's attention."""
from __future__ import annotations

import torch
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer
from mmflatten.models.attention.maps import Maps, fill_masked
from mmflatten.models.layers import GridTable
from mmflatten.ops import softmax_attention
from mmflatten.registry import MODELS


@MODELS.register_module()
class LinformerAttention(TokenMixer):
    """Softmax attention to a fixed number of learned sums of the keys, `softmax(q (E k)^T / sqrt(d)) F v`.

    Cost: `2 r (N + M) C` for `r` sums. Source: Linformer (Wang et al., 2020), eq. 7. `E` and `F` are tables over the
    map, shared by all heads. For a map of a different size they are resized and scaled so that their sums stay the
    same. Prefix tokens remain separate keys.

    Args:
        num_keys: number of sums `r`.
    """

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, num_keys: int = 49,
                 **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        if num_keys < 1:
            raise ValueError(f'num_keys ({num_keys}) must be at least 1')
        std = (grid_size[0] * grid_size[1]) ** -.5
        self.key_sums, self.value_sums = (_Sums(num_keys, grid_size, std=std) for _ in range(2))
        for table in (self.key_sums, self.value_sums):
            nn.init.trunc_normal_(table.table, std=std)

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        k_Bhrd, v_Bhrd = (self._sums(fill_masked(x, maps.mask, 0.), table, maps.kv_hw)
                          for x, table in ((k_BhMd, self.key_sums), (v_BhMd, self.value_sums)))
        return softmax_attention(q_BhNd, k_Bhrd, v_Bhrd)

    def _sums(self, x_BhMd: Tensor, table: GridTable, kv_hw: tuple[int, int]) -> Tensor:
        prefix = x_BhMd.shape[2] - kv_hw[0] * kv_hw[1]
        sums = table.rows(kv_hw).to(x_BhMd.dtype).transpose(1, 2).unsqueeze(1) @ x_BhMd[:, :, prefix:]
        return torch.cat((x_BhMd[:, :, :prefix], sums), dim=2) if prefix else sums


class _Sums(GridTable):
    """Weights of sums over a map, scaled when resized so that the sums stay the same."""

    def _resized(self, table: Tensor, size: tuple[int, int], new_size: tuple[int, int], mode: str) -> Tensor:
        scale = (size[0] * size[1]) / (new_size[0] * new_size[1])
        return super()._resized(table, size, new_size, mode) * scale
