"""Skeleton of a plain backbone: one resolution from the embedding to the last block."""
from __future__ import annotations

from collections.abc import Sequence

from mmengine.model import ModuleDict, ModuleList
from torch import Tensor, nn

from mmflatten.models.backbones.base import Backbone, check_indices, run_blocks
from mmflatten.models.layers import ClassTokenEmbed, ConvEmbed, GridTable, output_map, split_prefix

OUT_TYPES = ('cls_token', 'featmap')


class PlainEmbed(ClassTokenEmbed):
    """Patch embedding with a prepended class token and learned positions.

    `(B, 3, H, W) -> (B, 1 + H' W', C), (H', W')`. The returned map shape does not count the class token.

    Args:
        embed_dims: channels of the tokens.
        patch_size: side of a patch. Images are zero-padded to a multiple of it, on the right and at the bottom.
        grid_size: `(H', W')` in pre-training, the size of the positional table.
    """

    def __init__(self, embed_dims: int, patch_size: int, grid_size: tuple[int, int]) -> None:
        super().__init__(3, embed_dims, patch_size, patch_size, norm=False)
        self.position = GridTable(embed_dims, grid_size, num_prefix=1, std=.02)

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, tuple[int, int]]:
        tokens, hw_shape = super().forward(x_BCHW)
        return self.position(tokens, hw_shape), hw_shape


class PlainBackbone(Backbone):
    """An embedding followed by blocks of one resolution.

    Each block in `out_indices` has a separate output `LayerNorm`, which does not affect the next block. The last norm
    is that of the classifier; norms of earlier blocks are not in its checkpoint and keep their initial values.
    Blocks after the last output are not built.

    Args:
        embed: `(B, 3, H, W) -> (B, 1 + N, C), (H', W')`, or `(B, N, C)` without class token ('featmap' only).
        blocks: called as `block(x_BNC, hw_shape)`; the first `max(out_indices) + 1` are used.
        out_type: 'cls_token' returns `(B, C)` for each of `out_indices`; 'featmap' returns the map without the class
            token, `(B, C, H', W')`.
        out_indices: blocks whose outputs are returned; None for the last block.
        frozen_stages: -1 trains everything, 0 freezes the embedding with class token and positions, `i` also freezes
            the first `i` blocks and their output norms.
        norm_eps: epsilon of the output norms.
        with_cp, progressive_norm, init_cfg: as in `Backbone`.
    """

    def __init__(self, embed: ConvEmbed, blocks: Sequence[nn.Module], out_type: str = 'cls_token',
                 out_indices: Sequence[int] | None = None, frozen_stages: int = -1, norm_eps: float = 1e-6,
                 with_cp: bool = False, init_cfg: dict | list | None = None, progressive_norm: int = 0) -> None:
        super().__init__(frozen_stages, init_cfg)
        if out_type not in OUT_TYPES:
            raise ValueError(f'out_type: expected one of {OUT_TYPES}, got {out_type!r}.')
        self.out_type = out_type
        self.out_indices = check_indices((len(blocks) - 1,) if out_indices is None else out_indices, len(blocks),
                                         'block')
        self.embed = embed
        self.blocks = ModuleList(blocks[:self.out_indices[-1] + 1])
        self.is_whole = len(self.blocks) == len(blocks)
        self.norms = ModuleDict({str(i): nn.LayerNorm(embed.out_channels, norm_eps) for i in self.out_indices})
        self.with_cp = with_cp
        self.finish(len(self.blocks), progressive_norm)

    @property
    def out_channels(self) -> tuple[int, ...]:
        """Channels of the returned class tokens or maps."""
        return (self.embed.out_channels,) * len(self.out_indices)

    @property
    def out_strides(self) -> tuple[int, ...]:
        """Strides of the returned maps, whose sides are the image sides divided by the stride, rounded up."""
        return (self.embed.stride,) * len(self.out_indices)

    def layers(self) -> list[list[str]]:
        return [['embed.'], *([f'blocks.{i}.'] for i in range(len(self.blocks)))]

    def modules_to_freeze(self) -> list[nn.Module | nn.Parameter]:
        if self.frozen_stages < 0:
            return []
        norms = [norm for index, norm in self.norms.items() if int(index) < self.frozen_stages]
        return [self.embed, *self.blocks[:self.frozen_stages], *norms]

    def forward(self, image_B3HW: Tensor) -> tuple[Tensor, ...]:
        x_BNC, hw_shape = self.embed(image_B3HW)
        outputs, start = [], 0
        for index in self.out_indices:
            x_BNC = run_blocks(self.blocks[start:index + 1], x_BNC, hw_shape, self.with_cp)
            outputs.append(self._output(x_BNC, hw_shape, self.norms[str(index)]))
            start = index + 1
        return tuple(outputs)

    def _output(self, x_BNC: Tensor, hw_shape: tuple[int, int], norm: nn.Module) -> Tensor:
        prefix, tokens = split_prefix(x_BNC, hw_shape)
        if self.out_type == 'cls_token':
            return norm(prefix[:, 0])
        return output_map(norm(tokens), hw_shape)
