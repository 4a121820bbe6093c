"""Position biases between agents and the tokens of a map."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from einops import rearrange
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers.position import square_size
from mmflatten.ops.sizes import same_size

_GRID = 7  # side of the coarse table in the official code


class AgentBias(BaseModule):
    """Learned bias for every head, agent and token: the sum of a coarse map, a row term and a column term.

    The parameters keep their pre-training size, and `forward` resizes them bilinearly. A checkpoint with a different
    number of agents, rows or columns is resized when it is loaded.

    Args:
        num_heads: heads `h`.
        num_agents: agents `a`, a square number.
        grid_size: `(H, W)` of the map in pre-training.
        num_prefix: number of prefix tokens with a learned bias; further ones have a bias of zero.
    """

    def __init__(self, num_heads: int, num_agents: int, grid_size: tuple[int, int], num_prefix: int = 0) -> None:
        super().__init__()
        H, W = grid_size
        self.grid = nn.Parameter(torch.empty(num_heads, num_agents, _GRID, _GRID))
        self.rows = nn.Parameter(torch.empty(num_heads, num_agents, H, 1))
        self.cols = nn.Parameter(torch.empty(num_heads, num_agents, 1, W))
        self.prefix = nn.Parameter(torch.empty(num_heads, num_agents, num_prefix)) if num_prefix else None
        self.reset_parameters()

    def init_weights(self) -> None:
        super().init_weights()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters from a truncated normal distribution with standard deviation 0.02."""
        for table in self.parameters():
            nn.init.trunc_normal_(table, std=.02)

    def forward(self, hw_shape: tuple[int, int], num_prefix: int = 0) -> Tensor:
        """Biases `(1, h, a, N)` for a map of this shape, prefix tokens first."""
        fine = _resize(self.rows + self.cols, hw_shape)
        bias_1haN = (_resize(self.grid, hw_shape) + fine).flatten(2)[None]
        if not num_prefix:
            return bias_1haN
        learned = bias_1haN[..., :0] if self.prefix is None else self.prefix[None, ..., :num_prefix]
        zeros = bias_1haN.new_zeros(*bias_1haN.shape[:3], num_prefix - learned.shape[-1])
        return torch.cat((learned, zeros, bias_1haN), dim=-1)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *args) -> None:
        for name, parameter in self.named_parameters():
            table = state_dict.get(prefix + name)
            if table is not None and table.dim() == parameter.dim() and table.shape[0] == parameter.shape[0]:
                state_dict[prefix + name] = self._fitted(table, parameter, prefix + name)
        super()._load_from_state_dict(state_dict, prefix, *args)

    @staticmethod
    def _fitted(table: Tensor, parameter: Tensor, name: str) -> Tensor:
        """Resize a table to the rows, columns and agents of a parameter."""
        if table.dim() == 4:
            table = _resize(table, (parameter.shape[2], parameter.shape[3]))
        if table.shape[1] == parameter.shape[1]:
            return table
        (side, _), (new_side, _) = (square_size(x.shape[1], name) for x in (table, parameter))
        agents = rearrange(table, 'h (y x) ... -> h (...) y x', y=side, x=side)
        return _resize(agents, (new_side, new_side)).flatten(2).transpose(1, 2).reshape(parameter.shape)


def _resize(x: Tensor, size: tuple[int, int]) -> Tensor:
    return x if same_size((x.shape[-2], x.shape[-1]), size) else F.interpolate(x, size=size, mode='bilinear')
