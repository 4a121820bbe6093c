"""The non-causal state space duality of VSSD."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention.maps import Maps, fill_masked
from mmflatten.models.attention.own_projections import OwnProjections, require_no_prefix
from mmflatten.models.layers import FullRangeLinear, Linear, TokenConv
from mmflatten.ops import (
    merge_heads,
    no_autocast,
    split_heads,
    state_space_attention,
    upcast,
    widen,
)
from mmflatten.registry import MODELS

_STEPS = 0.001, 0.1  # range of the initial step sizes
_RATES = 1.0, 16.0  # range of the initial rates


@MODELS.register_module()
class StateSpaceAttention(OwnProjections):
    """Mamba-2 without an order of the tokens: one hidden state per head, the sum of all tokens with
    learned weights.

    With `[v, k, q] = silu(dwconv(W x))` and `w = a softplus(dt)`, where `dt` is a projection of the
    input plus a bias and `a` a learned positive rate per head, the result is
    `W_out(norm(q (k^T (w * v)) + D v) * z)`, `z` another projection. Queries and keys are shared by
    all heads. Source: VSSD (Shi et al., ICCV 2025). The paper's summaries and the formula of the
    released code were read, with its published settings (positive weights); the code has no licence
    and its outputs were not compared. Its last stage has softmax attention.

    Args:
        num_states: channels of queries and keys.
        expansion: channels of the values, in multiples of `embed_dims`.
        qkv_bias: use a bias in the first projection, which the code does not.

    Raises:
        ValueError: there are prefix tokens, which the convolution would drop.
    """

    def __init__(
        self,
        embed_dims: int,
        num_heads: int,
        grid_size: tuple[int, int],
        *,
        num_states: int = 64,
        expansion: int = 2,
        qkv_bias: bool = True,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, qkv_bias=qkv_bias, **kwargs)
        for name, value in dict(num_states=num_states, expansion=expansion).items():
            if not isinstance(value, int) or value < 1:
                raise ValueError(f'{name}: expected a positive integer, got {value!r}.')
        inner = expansion * embed_dims
        self.widths = [inner, num_states, num_states, inner, num_heads]
        self.qkv = Linear(embed_dims, sum(self.widths), bias=qkv_bias)
        self.conv = TokenConv(inner + 2 * num_states, 3)
        self.step_bias = nn.Parameter(torch.empty(num_heads))
        self.log_rate = nn.Parameter(torch.empty(num_heads))
        self.skip = nn.Parameter(torch.ones(num_heads, 1, 1))
        self.norm = nn.LayerNorm(inner)
        self.proj = FullRangeLinear(inner, embed_dims)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw steps from a log-uniform distribution and rates from a uniform one, as Mamba-2
        does.
        """
        low, high = _STEPS
        nn.init.uniform_(self.step_bias, math.log(low), math.log(high))
        nn.init.uniform_(self.log_rate, *_RATES)
        with torch.no_grad():
            step = self.step_bias.exp()
            self.step_bias.copy_(step + torch.log(-torch.expm1(-step)))  # inverse of softplus
            self.log_rate.log_()

    def projections(
        self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Maps]:
        require_no_prefix(x, hw_shape)
        assert self.qkv is not None
        inner, states, _, _, heads = self.widths
        parts_BNc, gate_BNE, step_BNh = self.qkv(x).split(
            [inner + 2 * states, inner, heads], dim=-1
        )
        parts_BNc = F.silu(self.conv(fill_masked(parts_BNc, mask, 0.0), hw_shape))
        v_BNE, k_BNs, q_BNs = parts_BNc.split([inner, states, states], dim=-1)
        return q_BNs, k_BNs, v_BNE, Maps(hw_shape, hw_shape, mask, 0, (gate_BNE, step_BNh))

    def attend(self, q_BNs: Tensor, k_BNs: Tensor, v_BNE: Tensor, maps: Maps) -> Tensor:
        with no_autocast(q_BNs):
            step_BNh, bias_h, log_rate_h = upcast(maps.extra[1], self.step_bias, self.log_rate)
            weight_BNh = F.softplus(step_BNh + bias_h) * log_rate_h.exp()
            weight_BNh = fill_masked(weight_BNh, maps.mask, 0.0)
        y_BhNe = state_space_attention(
            q_BNs.unsqueeze(1),
            k_BNs.unsqueeze(1),
            split_heads(widen(v_BNE), self.num_heads),
            weight_BhN1=weight_BNh.transpose(1, 2).unsqueeze(-1),
            skip=self.skip,
        )
        return merge_heads(y_BhNe)

    def finish(self, y_BNE: Tensor, maps: Maps) -> Tensor:
        (y_BNE,) = upcast(y_BNE)
        with no_autocast(y_BNE):
            weight, bias = upcast(self.norm.weight, self.norm.bias)
            y_BNE = F.layer_norm(y_BNE, [y_BNE.shape[-1]], weight, bias, self.norm.eps)
        gate_BNE = maps.extra[0]
        return widen(y_BNE.to(gate_BNE.dtype)) * gate_BNE
