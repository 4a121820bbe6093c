"""Residual branches and blocks: the skeleton of every family."""
from __future__ import annotations

from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.layers.drop_path import DropPath


class Residual(BaseModule):
    """`x + drop_path(fn(norm(x), hw_shape))`.

    Args:
        fn: module called as `fn(x_BNC, hw_shape)`, a token mixer or a feed-forward network.
        norm: normalisation of the branch's input; none by default.
        drop_path: probability of dropping the branch for a sample.
    """

    def __init__(self, fn: nn.Module, norm: nn.Module | None = None, drop_path: float = 0.) -> None:
        super().__init__()
        self.norm = nn.Identity() if norm is None else norm
        self.fn = fn
        self.drop_path = DropPath(drop_path) if drop_path else nn.Identity()

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        return x_BNC + self.drop_path(self.fn(self.norm(x_BNC), hw_shape))


class Block(BaseModule):
    """Named residual branches, run in the order in which they are given."""

    def __init__(self, **branches: Residual) -> None:
        super().__init__()
        for name, branch in branches.items():
            self.add_module(name, branch)

    def forward(self, x_BNC: Tensor, hw_shape: tuple[int, int]) -> Tensor:
        for branch in self.children():
            x_BNC = branch(x_BNC, hw_shape)
        return x_BNC


def pre_norm_block(mixer: nn.Module, ffn: nn.Module, embed_dims: int, drop_path: float = 0.,
                   eps: float = 1e-5) -> Block:
    """The usual block of a transformer: attention `attn`, then a feed-forward network `ffn`, each behind a `LayerNorm`.

    Args:
        mixer: token mixer.
        ffn: feed-forward network.
        embed_dims: channels of the tokens.
        drop_path: probability of dropping each of the two branches.
        eps: of the norms.
    """
    return Block(attn=Residual(mixer, nn.LayerNorm(embed_dims, eps), drop_path),
                 ffn=Residual(ffn, nn.LayerNorm(embed_dims, eps), drop_path))
