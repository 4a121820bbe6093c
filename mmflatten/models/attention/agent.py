"""Agent attention."""
from __future__ import annotations

from torch import Tensor

from mmflatten.models.attention.base import TokenMixer, square_side
from mmflatten.models.attention.maps import Maps, masked_logits, pool_real, values_at_queries
from mmflatten.models.layers import AgentBias, TokenConv
from mmflatten.ops import agent_attention, merge_heads, split_heads
from mmflatten.registry import MODELS


@MODELS.register_module()
class AgentAttention(TokenMixer):
    """Softmax attention through agents, which are pooled queries, plus a depthwise convolution of the values.

    Source: Agent Attention (Han et al., ECCV 2024), eqs. 3 to 5. Prefix tokens are neither pooled nor convolved, but
    they attend to the agents and the agents attend to them. Padding is neither pooled nor attended.

    Args:
        num_agents: number of agents, a square number. Dense tasks use more; tables of a checkpoint are resized.
        num_prefix: number of prefix tokens with learned biases, 1 in a DeiT.
        kernel_size: of the convolution; None for none, as in CSwin, which adds one by itself.

    Raises:
        ValueError: `num_agents` is not a square number.
    """

    splits_heads = False

    def __init__(self, embed_dims: int, num_heads: int, grid_size: tuple[int, int], *, num_agents: int = 49,
                 num_prefix: int = 0, kernel_size: int | None = 3, **kwargs) -> None:
        super().__init__(embed_dims, num_heads, grid_size, **kwargs)
        self.side = square_side('num_agents', num_agents)
        self.key_bias, self.query_bias = (AgentBias(num_heads, num_agents, grid_size, num_prefix) for _ in range(2))
        self.dwc = TokenConv(embed_dims, kernel_size) if kernel_size else None

    def attend(self, q_BNC: Tensor, k_BMC: Tensor, v_BMC: Tensor, maps: Maps) -> Tensor:
        key_bias = self.key_bias(maps.kv_hw, maps.prefix).to(q_BNC.dtype)
        mask_B11M = masked_logits(k_BMC.unsqueeze(1), maps.mask)
        key_bias = key_bias if mask_B11M is None else key_bias + mask_B11M
        query_bias = self.query_bias(maps.hw, maps.prefix).to(q_BNC.dtype).transpose(-2, -1)
        agents_BaC = pool_real(q_BNC, maps.hw, maps.mask, self.side)
        parts = (split_heads(x, self.num_heads) for x in (q_BNC, k_BMC, v_BMC, agents_BaC))
        y_BNC = merge_heads(agent_attention(*parts, key_bias=key_bias, query_bias=query_bias))
        if self.dwc is None:
            return y_BNC
        return y_BNC + self.dwc(values_at_queries(v_BMC, maps, bilinear=True), maps.hw)
