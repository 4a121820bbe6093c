"""Skeleton of a plain backbone: one resolution from the embedding to the last block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from mmengine.model import ModuleDict, ModuleList
from torch import Tensor, nn

from mmflatten.models.backbones.arch import StagePlan, check_side, resolve_arch, stage_plan
from mmflatten.models.backbones.base import Backbone, check_indices, run_blocks
from mmflatten.models.backbones.letters import block_letters, check_letters
from mmflatten.models.layers import (
    ConvEmbed,
    GridTable,
    NormalizedRotary,
    map_shape,
    output_map,
    split_prefix,
)

OUT_TYPES = ('cls_token', 'cls_and_avg', 'featmap', 'avg_featmap')
OUTPUT_NORMS = ('separate', 'shared', 'none')


class PartlyEncoded(NamedTuple):
    """Tokens between two blocks of an encoder, and what follows them.

    Attributes:
        x_BNC: tokens, prefix tokens first.
        hw_shape: `(H, W)` of their map.
        blocks: remaining blocks, called as `block(x_BNC, hw_shape, mask)`.
        norm: norm of the output.
        image_shape: height and width of the image, in pixels.
        padded_shape: those of the image padded to whole patches.
    """

    x_BNC: Tensor
    hw_shape: tuple[int, int]
    blocks: Sequence[nn.Module]
    norm: nn.Module
    image_shape: tuple[int, int] = (0, 0)
    padded_shape: tuple[int, int] = (0, 0)


class PlainBackbone(Backbone):
    """An embedding followed by blocks of one resolution.

    Each block in `out_indices` has a separate output `LayerNorm`, which does not affect the next
    block. The last norm is that of the classifier; norms of earlier blocks are not in its
    checkpoint and keep their initial values. `output_norm` chooses otherwise. Blocks after the last
    output are not built.

    A family overrides `make_embed`, and `make_block`, `make_mixer` or `make_ffn` if it differs
    there.

    Args:
        arch: name in `archs`, or a dict of `embed_dims`, `depth`, `num_heads` and any other keys of
            `archs`, its traits. All have `mlp_ratio`, `patch_size`, `img_size`, `qkv_bias` and the
            `eps` of the norms.
        attn_types: one letter for all blocks, or one per block.
        img_size, patch_size, qkv_bias: override those of the architecture, unless None.
        border: width in patches of a border of zeros around the image, which the grid includes.
        with_cls_token: False leaves out class token and registers, and ignores their weights in
            checkpoints.
        out_type: 'cls_token' returns `(B, C)` for each of `out_indices`; 'cls_and_avg' returns
            class token and mean over the map, both after the norm, `(B, 2 C)`; 'avg_featmap'
            returns the norm of the mean over the tokens of the map, `(B, C)`; 'featmap' returns the
            map without class token and border, `(B, C, H', W')`, whose mean over the map is that
            behind the norm.
        out_indices: blocks whose outputs are returned; None for the last block.
        output_norm: 'separate'; 'shared' for the classifier's norm on every output, as DINOv2
            returns maps; or 'none', as in ViTDet.
        frozen_stages: -1 trains everything, 0 freezes the embedding with class token and positions,
            `i` also freezes the first `i` blocks and their output norms.
        drop_path_rate: as in `Backbone`.
        kwargs: further arguments of `Backbone`.
    """

    # Weights of the parts that `with_cls_token=False` leaves out.
    prefix_weights: tuple[str, ...] = (r'embed\.cls_token', r'embed\.registers')

    def __init__(
        self,
        arch: str | dict,
        *,
        attn_types: str,
        drop_path_rate: float,
        img_size: int | Sequence[int] | None = None,
        patch_size: int | None = None,
        qkv_bias: bool | None = None,
        border: int = 0,
        with_cls_token: bool = True,
        out_type: str = 'cls_token',
        out_indices: Sequence[int] | None = None,
        output_norm: str = 'separate',
        **kwargs: Any,
    ) -> None:
        traits = resolve_arch(arch, self.archs, required=('embed_dims', 'depth', 'num_heads'))
        overrides = dict(img_size=img_size, patch_size=patch_size, qkv_bias=qkv_bias)
        for name, value in overrides.items():
            if value is not None:
                traits[name] = value
        super().__init__(qkv_bias=traits['qkv_bias'], **kwargs)
        _check_output(out_type, output_norm, with_cls_token)
        _check_patches(traits['img_size'], traits['patch_size'], border)
        self.traits = traits
        self.norm_eps = traits['eps']
        self.border = border
        self.with_cls_token = with_cls_token
        if not with_cls_token:
            self.droppable_weights = (*self.droppable_weights, *self.prefix_weights)
        self.out_type = out_type
        self.output_norm = output_norm

        self.depth = traits['depth']
        letters = block_letters(attn_types, attn_types, self.depth)
        check_letters('attn_types', attn_types, [letters], self.mixers)
        (stage,) = stage_plan(
            dict(traits, num_heads=[traits['num_heads']]),
            traits['img_size'],
            [letters],
            drop_path_rate,
            stride=traits['patch_size'],
            in_channels=self.in_channels,
        )
        height, width = stage.grid
        self.plan = replace(stage, grid=(height + 2 * border, width + 2 * border))
        if out_indices is None:
            out_indices = (self.depth - 1,)
        self.out_indices = check_indices(out_indices, self.depth, 'block')
        self.is_whole = self.out_indices[-1] == self.depth - 1

    def build(self) -> None:
        """Build embedding, blocks and output norms."""
        self.embed = self.make_embed(self.plan)
        self.blocks = ModuleList()
        for block in self.plan.blocks[: self.out_indices[-1] + 1]:
            self.blocks.append(self.make_block(self.plan, block))
        # A shared norm has the name of the classifier's.
        normed = dict(separate=self.out_indices, shared=(self.depth - 1,), none=())
        self.norms = ModuleDict()
        for index in normed[self.output_norm]:
            self.norms[str(index)] = nn.LayerNorm(self.plan.embed_dims, self.norm_eps)
        self.finish(len(self.blocks))

    def make_embed(self, stage: StagePlan) -> PlainEmbed:
        """Build the patch embedding."""
        raise NotImplementedError

    @property
    def out_channels(self) -> tuple[int, ...]:
        """Channels of the returned class tokens or maps."""
        channels = self.embed.out_channels
        if self.out_type == 'cls_and_avg':
            channels *= 2
        return (channels,) * len(self.out_indices)

    @property
    def out_strides(self) -> tuple[int, ...]:
        """Strides of the returned maps, whose sides are the image sides divided by the stride,
        rounded up.
        """
        return (self.embed.stride,) * len(self.out_indices)

    def layers(self) -> list[list[str]]:
        names = [['embed.']]
        for index in range(len(self.blocks)):
            names.append([f'blocks.{index}.'])
        return names

    def modules_to_freeze(self) -> list[nn.Module | nn.Parameter]:
        if self.frozen_stages < 0:
            return []
        frozen = [self.embed, *self.blocks[: self.frozen_stages]]
        all_blocks = self.frozen_stages == len(self.blocks)
        for index, norm in self.norms.items():
            if int(index) < self.frozen_stages or all_blocks:
                frozen.append(norm)
        return frozen

    def forward(self, image_B3HW: Tensor) -> tuple[Tensor, ...]:
        x_BNC, hw_shape = self.embed(image_B3HW)
        outputs = []
        start = 0
        for index in self.out_indices:
            x_BNC = run_blocks(self.blocks[start : index + 1], x_BNC, hw_shape, self.with_cp)
            outputs.append(self._output(x_BNC, hw_shape, self._norm(index)))
            start = index + 1
        return tuple(outputs)

    def forward_until(self, image_B3HW: Tensor, remaining: int) -> PartlyEncoded:
        """Run all blocks but the last `remaining` ones, which the caller runs on more tokens.

        `with_cp` does not apply to those.

        Raises:
            ValueError: there are fewer blocks, the last one is left out, or the image has a border.
        """
        if not self.is_whole or self.border or not 1 <= remaining <= self.depth:
            raise ValueError(
                f'remaining: expected 1 to {self.depth} blocks of a whole backbone without border,'
                f' got {remaining} with out_indices={self.out_indices} and border={self.border}.'
            )
        x_BNC, hw_shape = self.embed(image_B3HW)
        first = self.depth - remaining
        x_BNC = run_blocks(self.blocks[:first], x_BNC, hw_shape, self.with_cp)
        stride = self.embed.stride
        return PartlyEncoded(
            x_BNC,
            hw_shape,
            blocks=self.blocks[first:],
            norm=self._norm(self.depth - 1),
            image_shape=map_shape(image_B3HW),
            padded_shape=(hw_shape[0] * stride, hw_shape[1] * stride),
        )

    def _norm(self, index: int) -> nn.Module:
        """Return the norm of the output of a block."""
        if self.output_norm == 'none':
            return nn.Identity()
        if self.output_norm == 'shared':
            (norm,) = self.norms.values()
            return norm
        return self.norms[str(index)]

    def _output(self, x_BNC: Tensor, hw_shape: tuple[int, int], norm: nn.Module) -> Tensor:
        prefix, tokens = split_prefix(x_BNC, hw_shape)
        if self.out_type == 'cls_token':
            return norm(prefix[:, 0])
        if self.out_type == 'cls_and_avg':
            return torch.cat((norm(prefix[:, 0]), norm(tokens).mean(dim=1)), dim=-1)
        if self.out_type == 'avg_featmap':
            return norm(tokens.mean(dim=1))
        map_BCHW = output_map(norm(tokens), hw_shape)
        border = self.embed.border
        if border:
            map_BCHW = map_BCHW[..., border:-border, border:-border].contiguous()
        return map_BCHW


class PlainEmbed(ConvEmbed):
    """Patch embedding with optional class token, registers and learned positions.

    `(B, C_in, H, W) -> (B, 1 + R + H' W', C), (H', W')`. The returned map shape does not count the
    prefix tokens. `rotary` is used by the attention of all blocks and stored here once.

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
        in_channels: bands of the image.
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
        in_channels: int = 3,
    ) -> None:
        super().__init__(
            in_channels=in_channels,
            embed_dims=embed_dims,
            kernel_size=patch_size,
            stride=patch_size,
            norm=False,
            class_token=class_token,
        )
        self.border = border
        self.position = None
        if positions:
            self.position = GridTable(
                embed_dims,
                grid_size,
                num_prefix=int(class_token and class_position),
                std=0.02,
                resize=resize,
            )
        self.registers = None
        if registers:
            if not class_token:
                raise ValueError(f'registers: expected 0 without class token, got {registers}.')
            tokens = torch.empty(1, registers, embed_dims)
            self.registers = nn.Parameter(nn.init.trunc_normal_(tokens, std=0.02))
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
        """Ignore the token of masked patches, a weight of DINOv2 and DINOv3 that only pre-training
        uses.
        """
        state_dict.pop(f'{prefix}mask_token', None)
        super()._load_from_state_dict(state_dict, prefix, *args)


def _check_output(out_type: str, output_norm: str, with_cls_token: bool) -> None:
    if out_type not in OUT_TYPES:
        raise ValueError(f'out_type: expected one of {OUT_TYPES}, got {out_type!r}.')
    if out_type.startswith('cls') and not with_cls_token:
        raise ValueError(
            f"out_type: expected 'featmap' or 'avg_featmap' without class token, got {out_type!r}."
        )
    if output_norm not in OUTPUT_NORMS:
        raise ValueError(f'output_norm: expected one of {OUTPUT_NORMS}, got {output_norm!r}.')


def _check_patches(img_size: int | Sequence[int], patch_size: int, border: int) -> None:
    check_side('patch_size', patch_size)
    if not isinstance(border, int) or border < 0:
        raise ValueError(f'border: expected a number of patches, 0 for none, got {border!r}.')
    sides = img_size if isinstance(img_size, (list, tuple)) else [img_size]
    # Sides of another type are reported by `stage_plan`.
    if any(isinstance(side, int) and side < patch_size for side in sides):
        raise ValueError(
            f'img_size: expected at least one patch of {patch_size} pixels, got {img_size}.'
        )
