"""Softmax attentions through a few tokens: agents, landmarks or learned sums of the keys."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer, square_side
from mmflatten.models.attention.local_term import ValueConv
from mmflatten.models.attention.maps import Maps, fill_masked, masked_logits, pool_real
from mmflatten.models.layers import AgentBias, GridTable
from mmflatten.ops import (
    agent_attention,
    merge_heads,
    no_autocast,
    nystrom_attention,
    softmax_attention,
    split_heads,
    upcast,
    widen,
)
from mmflatten.registry import MODELS


@MODELS.register_module()
class AgentAttention(TokenMixer):
    """Softmax attention through agents, which are pooled queries, plus a depthwise convolution of
    the values.

    Source: Agent Attention (Han et al., ECCV 2024), eqs. 3 to 5. Prefix tokens are neither pooled
    nor convolved, but they attend to the agents and the agents attend to them. Padding is neither
    pooled nor attended.

    Args:
        num_agents: number of agents, a square number. Dense tasks use more; tables of a checkpoint
            are resized.
        num_prefix: number of prefix tokens with learned biases, 1 in a DeiT.
        kernel_size: of the convolution; None for none, as in CSwin, which adds one by itself.
    """

    splits_heads = False

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        num_agents: int = 49,
        num_prefix: int = 0,
        kernel_size: int | None = 3,
        sr_ratio: int = 1,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, sr_ratio=sr_ratio, **kwargs)
        self.side = square_side('num_agents', num_agents)
        queries = grid_size[0] * sr_ratio, grid_size[1] * sr_ratio  # `grid_size` is the keys' map
        self.key_bias = AgentBias(num_heads, num_agents, grid_size, num_prefix)
        self.query_bias = AgentBias(num_heads, num_agents, queries, num_prefix)
        self.dwc = ValueConv(embed_dims, kernel_size, bilinear=True) if kernel_size else None

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        key_bias = self.key_bias(maps.kv_hw, maps.prefix).to(q_BNC.dtype)
        mask_B11M = masked_logits(k_BMC.unsqueeze(1), maps.mask)
        key_bias = key_bias if mask_B11M is None else key_bias + mask_B11M
        query_bias = self.query_bias(maps.hw, maps.prefix).to(q_BNC.dtype).transpose(-2, -1)
        agents_BaC = pool_real(q_BNC, maps.hw, maps.mask, self.side)
        y_BhNd = agent_attention(
            split_heads(q_BNC, self.num_heads),
            split_heads(k_BMC, self.num_heads),
            split_heads(v_BMC, self.num_heads),
            split_heads(agents_BaC, self.num_heads),
            key_bias=key_bias,
            query_bias=query_bias,
        )
        y_BNC = merge_heads(y_BhNd)
        return y_BNC if self.dwc is None else y_BNC + self.dwc(v_BMC, maps)


@MODELS.register_module()
class VisualContrastAttention(TokenMixer):
    """Differential agent attention: the output of one set of agents minus a learned multiple of
    that of another set.

    With `A+- = pool(q) + E+-` and softmax `s`, the agents aggregate
    `V = s(A+ k^T) v - l1 s(A- k^T) v`, and the result is `(1 - l2) norm((s(q A+^T) - l2 s(q A-^T))
    V)` with an RMS norm of each head, plus a depthwise convolution of the values. `l = exp(a . b) -
    exp(c . d) + start` with learned vectors as wide as a head. Source: Linear Differential Vision
    Transformer (NeurIPS 2025), implemented from the paper because the code is not public.

    Args:
        num_agents: number of agents in each set, a square number.
        start: initial value of both `l`, apart from the random vectors.
        kernel_size: of the convolution.
    """

    splits_heads = False

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        num_agents: int = 49,
        start: float = 0.8,
        kernel_size: int = 3,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.side = square_side('num_agents', num_agents)
        self.start = start
        self.agents = nn.Parameter(torch.empty(2, num_agents, embed_dims))
        self.shares = nn.Parameter(torch.empty(2, 4, embed_dims // num_heads))
        self.norm = nn.Parameter(torch.ones(embed_dims // num_heads))
        self.dwc = ValueConv(embed_dims, kernel_size, bilinear=True)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the agents' offsets and the vectors of `l` from normal distributions."""
        nn.init.trunc_normal_(self.agents, std=0.02)
        nn.init.normal_(self.shares, std=0.1)

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        pooled_BaC = pool_real(q_BNC, maps.hw, maps.mask, self.side)
        plus_BaC = pooled_BaC + self.agents[0]
        minus_BaC = pooled_BaC + self.agents[1]
        q, k, v, plus, minus = (
            split_heads(x, self.num_heads) for x in upcast(q_BNC, k_BMC, v_BMC, plus_BaC, minus_BaC)
        )
        with no_autocast(q):
            first, second = (
                a.dot(b).exp() - c.dot(d).exp() + self.start for a, b, c, d in self.shares
            )
            bias = masked_logits(k, maps.mask)
            # The two sets of agents aggregate the values, then the queries read the difference.
            from_plus = softmax_attention(plus, k, v, bias=bias)
            from_minus = softmax_attention(minus, k, v, bias=bias)
            gathered = from_plus - first * from_minus
            to_plus = softmax_attention(q, plus, gathered)
            to_minus = softmax_attention(q, minus, gathered)
            y = to_plus - second * to_minus
            y = F.rms_norm(y, self.norm.shape, self.norm, 1e-6) * (1 - second)
        return merge_heads(y).to(v_BMC.dtype) + self.dwc(v_BMC, maps)


@MODELS.register_module()
class NystromAttention(TokenMixer):
    """Softmax attention approximated through landmarks, which are pooled queries and keys.

    Source: Nyströmformer (Xiong et al., AAAI 2021), whose landmarks are means of segments of a
    sequence. Here they are means of the cells of a square grid on the map. Prefix tokens are not
    pooled.

    Args:
        num_landmarks: number of landmarks, a square number.
        iterations: number of iterations of the pseudo-inverse.
    """

    splits_heads = False

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        num_landmarks: int = 49,
        iterations: int = 6,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.side = square_side('num_landmarks', num_landmarks)
        self.iterations = iterations

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        q_landmarks_BaC = pool_real(q_BNC, maps.hw, maps.mask, self.side)
        k_landmarks_BaC = pool_real(k_BMC, maps.kv_hw, maps.mask, self.side)
        q, k, v, q_landmarks, k_landmarks = (
            split_heads(widen(x), self.num_heads)
            for x in (q_BNC, k_BMC, v_BMC, q_landmarks_BaC, k_landmarks_BaC)
        )
        y_BhNd = nystrom_attention(
            q,
            k,
            v,
            q_landmarks_Bhad=q_landmarks,
            k_landmarks_Bhad=k_landmarks,
            bias=masked_logits(k, maps.mask),
            iterations=self.iterations,
        )
        return merge_heads(y_BhNd).to(v_BMC.dtype)


@MODELS.register_module()
class LinformerAttention(TokenMixer):
    """Softmax attention to a fixed number of learned sums of the keys,
    `softmax(q (E k)^T / sqrt(d)) F v`.

    Cost: `2 r (N + M) C` for `r` sums. Source: Linformer (Wang et al., 2020), eq. 7. `E` and `F`
    are tables over the map, shared by all heads. For a map of a different size they are resized and
    scaled so that their sums stay the same. Prefix tokens remain separate keys.

    Args:
        num_keys: number of sums `r`.
    """

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        num_keys: int = 49,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        if num_keys < 1:
            raise ValueError(f'num_keys: expected at least 1, got {num_keys}.')
        std = (grid_size[0] * grid_size[1]) ** -0.5
        self.key_sums = _Sums(num_keys, grid_size, std=std)
        self.value_sums = _Sums(num_keys, grid_size, std=std)
        for table in (self.key_sums, self.value_sums):
            nn.init.trunc_normal_(table.table, std=std)

    def attend(self, q_BhNd: Tensor, k_BhMd: Tensor, v_BhMd: Tensor, maps: Maps) -> Tensor:
        k_BhMd, v_BhMd = (fill_masked(x, maps.mask, 0.0) for x in (k_BhMd, v_BhMd))
        k_Bhrd = self._sums(k_BhMd, self.key_sums, maps.kv_hw)
        v_Bhrd = self._sums(v_BhMd, self.value_sums, maps.kv_hw)
        return softmax_attention(q_BhNd, k_Bhrd, v_Bhrd)

    def _sums(self, x_BhMd: Tensor, table: GridTable, kv_hw: tuple[int, int]) -> Tensor:
        prefix = x_BhMd.shape[2] - kv_hw[0] * kv_hw[1]
        weights_11rM = table.rows(kv_hw).to(x_BhMd.dtype).transpose(1, 2).unsqueeze(1)
        sums = weights_11rM @ x_BhMd[:, :, prefix:]
        return torch.cat((x_BhMd[:, :, :prefix], sums), dim=2) if prefix else sums


class _Sums(GridTable):
    """Weights of sums over a map, scaled when resized so that the sums stay the same."""

    def _resized(
        self, table: Tensor, size: tuple[int, int], new_size: tuple[int, int], mode: str
    ) -> Tensor:
        scale = (size[0] * size[1]) / (new_size[0] * new_size[1])
        return super()._resized(table, size, new_size, mode) * scale
