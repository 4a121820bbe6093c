"""Visual-contrast attention."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.attention.base import TokenMixer, square_side
from mmflatten.models.attention.maps import Maps, masked_logits, pool_real, values_at_queries
from mmflatten.models.layers import TokenConv
from mmflatten.ops import merge_heads, no_autocast, softmax_attention, split_heads, upcast
from mmflatten.registry import MODELS


@MODELS.register_module()
class VisualContrastAttention(TokenMixer):
    """Differential agent attention: the output of one set of agents minus a learned multiple of that of another set.

    With `A+- = pool(q) + E+-` and softmax `s`, the agents aggregate `V = s(A+ k^T) v - l1 s(A- k^T) v`, and the result
    is `(1 - l2) norm((s(q A+^T) - l2 s(q A-^T)) V)` with an RMS norm of each head, plus a depthwise convolution of the
    values. `l = exp(a . b) - exp(c . d) + start` with learned vectors as wide as a head. Source: Linear Differential
    Vision Transformer (NeurIPS 2025), implemented from the paper because the code is not public.

    Args:
        num_agents: number of agents in each set, a square number.
        start: initial value of both `l`, apart from the random vectors.
        kernel_size: of the convolution.

    Raises:
        ValueError: `num_agents` is not a square number.
    """

    splits_heads = False

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, num_agents: int = 49,
                 start: float = .8, kernel_size: int = 3, **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.side, self.start = square_side('num_agents', num_agents), start
        self.agents = nn.Parameter(torch.empty(2, num_agents, embed_dims))
        self.shares = nn.Parameter(torch.empty(2, 4, embed_dims // num_heads))
        self.norm = nn.Parameter(torch.ones(embed_dims // num_heads))
        self.dwc = TokenConv(embed_dims, kernel_size)
        self.reset_parameters()

    def init_weights(self) -> None:
        super().init_weights()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the agents' offsets and the vectors of `l` from normal distributions."""
        nn.init.trunc_normal_(self.agents, std=.02)
        nn.init.normal_(self.shares, std=.1)

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        pooled_BaC = pool_real(q_BNC, maps.hw, maps.mask, self.side)
        q, k, v, plus, minus = (split_heads(upcast(x)[0], self.num_heads) for x in (
            q_BNC, k_BMC, v_BMC, *(pooled_BaC + offset for offset in self.agents)))
        with no_autocast(q):
            first, second = (a.dot(b).exp() - c.dot(d).exp() + self.start for a, b, c, d in self.shares)
            bias = masked_logits(k, maps.mask)
            gathered = softmax_attention(plus, k, v, bias=bias) - first * softmax_attention(minus, k, v, bias=bias)
            y = softmax_attention(q, plus, gathered) - second * softmax_attention(q, minus, gathered)
            y = F.rms_norm(y, self.norm.shape, self.norm, 1e-6) * (1 - second)
        return merge_heads(y).to(v_BMC.dtype) + self.dwc(values_at_queries(v_BMC, maps, bilinear=True), maps.hw)
