"""The hidden state mixer of EfficientViM (HSM-SSD)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmflatten.models.attention.maps import Maps, fill_masked
from mmflatten.models.attention.own_projections import OwnProjections, require_no_prefix
from mmflatten.models.layers import Linear, TokenConv
from mmflatten.ops import hidden_state_attention, upcast
from mmflatten.registry import MODELS


@MODELS.register_module()
class HiddenStateMixer(OwnProjections):
    """Non-causal state space whose channels are mixed, gated and projected in a few hidden states
    instead of the tokens.

    With `[q, k, l] = dwconv(W x)`, `s` channels each, and `h = (softmax_N(l) * k)^T x`, the result
    is `q W_out((W_h h) * (silu(W_z h) + D))`; no projection of the tokens follows. Source:
    EfficientViM (Lee et al., CVPR 2025) and its code, MIT. The code adds a learned number per state
    to `l`, which the softmax over the tokens removes; it is omitted. There are no heads:
    `num_heads` does not change the result. `mmflatten attention` shows the states' projections
    with the weights.

    Args:
        num_states: number of states `s`. The paper has 49, 25 and 9, or 64, 32 and 16, in its three
            stages.
        expansion: inner channels of the states, in multiples of `embed_dims`.
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
        num_states: int = 49,
        expansion: float = 1.0,
        qkv_bias: bool = True,
        **kwargs,
    ) -> None:
        super().__init__(embed_dims, num_heads, grid_size, qkv_bias=qkv_bias, **kwargs)
        inner = int(expansion * embed_dims)
        if num_states < 1:
            raise ValueError(f'num_states: expected at least 1, got {num_states}.')
        if inner < 1:
            raise ValueError(f'expansion: expected at least 1 inner channel, got {expansion}.')
        self.qkv = Linear(embed_dims, 3 * num_states, bias=qkv_bias)
        self.conv = TokenConv(3 * num_states, 3)
        self.states = nn.Linear(embed_dims, 2 * inner, bias=False)
        self.out = nn.Linear(inner, embed_dims, bias=False)
        self.skip = nn.Parameter(torch.ones(()))
        self.proj = nn.Identity()

    def projections(
        self, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Maps]:
        require_no_prefix(x, hw_shape)
        assert self.qkv is not None
        parts_BNc = self.conv(fill_masked(self.qkv(x), mask, 0.0), hw_shape)
        q_BNs, k_BNs, logits_BNs = parts_BNc.chunk(3, dim=-1)
        return q_BNs, k_BNs, x, Maps(hw_shape, hw_shape, mask, 0, (logits_BNs, x))

    def attend(self, q_BNs: Tensor, k_BNs: Tensor, v_BNC: Tensor, maps: Maps) -> Tensor:
        logits_BNs, x_BNC = maps.extra
        (logits_BNs,) = upcast(logits_BNs)
        return hidden_state_attention(
            q_BNs,
            k_BNs,
            v_BNC,
            logits_BNs=fill_masked(logits_BNs, maps.mask, -torch.inf),
            state_weight=self.states.weight,
            out_weight=self.out.weight,
            skip=self.skip,
            gate_BNC=None if v_BNC is x_BNC else x_BNC,  # attention maps replace the values
        )
