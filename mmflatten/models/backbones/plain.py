"""Skeleton of a plain backbone: one resolution from the embedding to the last block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from mmengine.model import ModuleDict, ModuleList
from torch import Tensor, nn

from mmflatten.models.backbones.base import Backbone, check_indices, run_blocks
from mmflatten.models.layers import ConvEmbed, GridTable, NormalizedRotary, output_map, split_prefix

OUT_TYPES = ('cls_token', 'cls_and_avg', 'featmap', 'avg_featmap')
OUTPUT_NORMS = ('separate', 'shared', 'none')


class PlainEmbed(ConvEmbed):
    """Patch embedding with a prepended class token, registers and learned positions, each of which
    can be left out.

    `(B, 3, H, W) -> (B, 1 + R + H' W', C), (H', W')`. The returned map shape does not count the
    prefix tokens. `rotary` is for the attention of the blocks, which it does not belong to, so that
    a model has it once.

    Args:
        embed_dims: channels of the tokens.
        patch_size: side of a patch. Images are zero-padded to a multiple of it, on the right and at
            the bottom.
        grid_size: `(H', W')` in pre-training, the size of the positional table.
        class_token: prepend a class token.
        positions: add a learned position to every token.
        border: width in patches of a border of zeros on all sides of the image (MHLA). `H'` and
            `W'` count it.
        registers: number `R` of learned tokens between class token and patches, without positions
            (DINOv2).
        class_position: the table of positions has a row for the class token.
        resize: mode of the table, see `GridTable`.
        rotary: rotation by position that queries and keys of the blocks use.
    """

    def __init__(
        self,
        embed_dims: int,
        patch_size: int,
        grid_size: tuple[int, int],
        class_token: bool = True,
        positions: bool = True,
        border: int = 0,
        registers: int = 0,
        class_position: bool = True,
        resize: str = 'bilinear',
        rotary: NormalizedRotary | None = None,
    ) -> None:
        super().__init__(3, embed_dims, patch_size, patch_size, norm=False, class_token=class_token)
        self.border = border
        self.position = (
            GridTable(
                embed_dims, grid_size, int(class_token and class_position), std=0.02, resize=resize
            )
            if positions
            else None
        )
        if registers and not class_token:
            raise ValueError(f'registers: expected 0 without class token, got {registers}.')
        self.registers = (
            nn.Parameter(nn.init.trunc_normal_(torch.empty(1, registers, embed_dims), std=0.02))
            if registers
            else None
        )
        self.rotary = rotary

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, tuple[int, int]]:
        if self.border:
            x_BCHW = F.pad(x_BCHW, (self.border * self.stride,) * 4)
        tokens, hw_shape = super().forward(x_BCHW)
        if self.position is not None:
            tokens = self.position(tokens, hw_shape)
        if self.registers is not None:
            registers = self.registers.to(tokens.dtype).expand(tokens.shape[0], -1, -1)
            tokens = torch.cat((tokens[:, :1], registers, tokens[:, 1:]), dim=1)
        return tokens, hw_shape

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        """Leave out the token of masked patches, which files of DINOv2 and DINOv3 hold for
        pre-training alone.
        """
        state_dict.pop(f'{prefix}mask_token', None)
        super()._load_from_state_dict(state_dict, prefix, *args)


class PlainBackbone(Backbone):
    """An embedding followed by blocks of one resolution.

    Each block in `out_indices` has a separate output `LayerNorm`, which does not affect the next
    block. The last norm is that of the classifier; norms of earlier blocks are not in its
    checkpoint and keep their initial values. `output_norm` chooses otherwise. Blocks after the last
    output are not built.

    Args:
        embed: `(B, 3, H, W) -> (B, 1 + N, C), (H', W')`, or `(B, N, C)` without class token.
        blocks: called as `block(x_BNC, hw_shape)`; the first `max(out_indices) + 1` are used.
        out_type: 'cls_token' returns `(B, C)` for each of `out_indices`; 'cls_and_avg' returns
            class token and mean over the map, both after the norm, `(B, 2 C)`; 'avg_featmap'
            returns the norm of the mean over the tokens of the map, `(B, C)`; 'featmap' returns the
            map without class token and border, `(B, C, H', W')`, whose mean over the map is that
            behind the norm.
        out_indices: blocks whose outputs are returned; None for the last block.
        frozen_stages: -1 trains everything, 0 freezes the embedding with class token and positions,
            `i` also freezes the first `i` blocks and their output norms.
        norm_eps: epsilon of the output norms.
        output_norm: 'separate'; 'shared' for the classifier's norm on every output, as DINOv2
            returns maps; or 'none', as in ViTDet.
        with_cp, progressive_norm, init_cfg: as in `Backbone`.
    """

    def __init__(
        self,
        embed: PlainEmbed,
        blocks: Sequence[nn.Module],
        out_type: str = 'cls_token',
        out_indices: Sequence[int] | None = None,
        frozen_stages: int = -1,
        norm_eps: float = 1e-6,
        with_cp: bool = False,
        init_cfg: dict | list | None = None,
        progressive_norm: int = 0,
        output_norm: str = 'separate',
    ) -> None:
        super().__init__(frozen_stages, init_cfg)
        if out_type not in OUT_TYPES:
            raise ValueError(f'out_type: expected one of {OUT_TYPES}, got {out_type!r}.')
        if out_type.startswith('cls') and embed.cls_token is None:
            raise ValueError(
                "out_type: expected 'featmap' or 'avg_featmap' without class token, got"
                f' {out_type!r}.'
            )
        if output_norm not in OUTPUT_NORMS:
            raise ValueError(f'output_norm: expected one of {OUTPUT_NORMS}, got {output_norm!r}.')
        self.out_type = out_type
        self.out_indices = check_indices(
            (len(blocks) - 1,) if out_indices is None else out_indices, len(blocks), 'block'
        )
        self.embed = embed
        self.blocks = ModuleList(blocks[: self.out_indices[-1] + 1])
        self.is_whole = len(self.blocks) == len(blocks)
        self.output_norm = output_norm
        normed = dict(separate=self.out_indices, shared=(len(blocks) - 1,), none=())[output_norm]
        self.norms = ModuleDict(
            {str(i): nn.LayerNorm(embed.out_channels, norm_eps) for i in normed}
        )
        self.with_cp = with_cp
        self.finish(len(self.blocks), progressive_norm)

    @property
    def out_channels(self) -> tuple[int, ...]:
        """Channels of the returned class tokens or maps."""
        return (self.embed.out_channels * (1 + (self.out_type == 'cls_and_avg')),) * len(
            self.out_indices
        )

    @property
    def out_strides(self) -> tuple[int, ...]:
        """Strides of the returned maps, whose sides are the image sides divided by the stride,
        rounded up.
        """
        return (self.embed.stride,) * len(self.out_indices)

    def layers(self) -> list[list[str]]:
        return [['embed.'], *([f'blocks.{i}.'] for i in range(len(self.blocks)))]

    def modules_to_freeze(self) -> list[nn.Module | nn.Parameter]:
        if self.frozen_stages < 0:
            return []
        norms = [
            norm
            for index, norm in self.norms.items()
            if int(index) < self.frozen_stages or self.frozen_stages == len(self.blocks)
        ]
        return [self.embed, *self.blocks[: self.frozen_stages], *norms]

    def forward(self, image_B3HW: Tensor) -> tuple[Tensor, ...]:
        x_BNC, hw_shape = self.embed(image_B3HW)
        outputs, start = [], 0
        for index in self.out_indices:
            x_BNC = run_blocks(self.blocks[start : index + 1], x_BNC, hw_shape, self.with_cp)
            outputs.append(self._output(x_BNC, hw_shape, self._norm(index)))
            start = index + 1
        return tuple(outputs)

    def _norm(self, index: int) -> nn.Module:
        if self.output_norm == 'none':
            return nn.Identity()
        return (
            self.norms[str(index)]
            if self.output_norm == 'separate'
            else next(iter(self.norms.values()))
        )

    def _output(self, x_BNC: Tensor, hw_shape: tuple[int, int], norm: nn.Module) -> Tensor:
        prefix, tokens = split_prefix(x_BNC, hw_shape)
        if self.out_type == 'cls_token':
            return norm(prefix[:, 0])
        if self.out_type == 'cls_and_avg':
            return torch.cat((norm(prefix[:, 0]), norm(tokens).mean(dim=1)), dim=-1)
        if self.out_type == 'avg_featmap':
            return norm(tokens.mean(dim=1))
        map_BCHW, border = output_map(norm(tokens), hw_shape), self.embed.border
        return map_BCHW[..., border:-border, border:-border].contiguous() if border else map_BCHW
