"""Skeleton of a hierarchical backbone: a loop over stages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import Any

from mmengine.model import BaseModule, ModuleDict, ModuleList
from torch import Tensor, nn

from mmflatten.models.backbones.arch import StagePlan, resolve_arch, stage_plan
from mmflatten.models.backbones.base import Backbone, check_indices, run_blocks
from mmflatten.models.backbones.letters import parse_attn_types
from mmflatten.models.layers import output_map, tokens_to_map


class PyramidBackbone(Backbone):
    """A sequence of stages: image `(B, 3, H, W)` -> maps `(B, C_i, H_i, W_i)` for `i` in
    `out_indices`.

    A family overrides `make_embed`, and `make_stage`, `make_block`, `make_mixer`, `make_ffn`,
    `make_output_norm` or `parse_letters` if it differs there.

    Args:
        arch: as in `Backbone`.
        letters: letters of the blocks, which `parse_letters` expands; `attn_types` of `Backbone` in
            most families.
        img_size, drop_path_rate, out_indices: as in `Backbone`.
        kwargs: further arguments of `Backbone`.
    """

    last_channels = 0  # of a projection of the last map; 0 without

    def __init__(
        self,
        arch: str | dict,
        *,
        letters: str | Sequence[str],
        drop_path_rate: float,
        img_size: int | Sequence[int] = 224,
        out_indices: Sequence[int] = (0, 1, 2, 3),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        settings = resolve_arch(arch, self.archs)
        blocks = self.parse_letters(letters, settings['depths'])
        plan = stage_plan(settings, img_size, blocks, drop_path_rate, in_channels=self.in_channels)
        self.out_indices = check_indices(out_indices, len(plan), 'stage')
        self.num_stages = len(plan)
        self.plan = plan[: self.out_indices[-1] + 1]
        # The last map is then that of the classifier.
        self.is_whole = len(self.plan) == self.num_stages

    def parse_letters(self, letters: str | Sequence[str], depths: Sequence[int]) -> list[str]:
        """Return for each stage a string with one letter per block."""
        return parse_attn_types(letters, depths, self.mixers)

    def build(self) -> None:
        """Build stages and output norms."""
        self.stages = ModuleList()
        for stage in self.plan:
            blocks = [self.make_block(stage, block) for block in stage.blocks]
            self.stages.append(self.make_stage(stage, blocks))
            self.stages[-1].with_cp = self.with_cp
        self.norms = ModuleDict()
        for index in self.out_indices:
            norm = self.make_output_norm(self.plan[index])
            if norm is not None:
                self.norms[str(index)] = norm
        self.finish(len(self.stages))

    def make_stage(self, stage: StagePlan, blocks: Sequence[nn.Module]) -> Stage:
        """Build a stage from its blocks."""
        return Stage(self.make_embed(stage), blocks)

    def make_embed(self, stage: StagePlan) -> nn.Module:
        """Build the embedding of the first stage or the downsampling of another, see `Stage`."""
        raise NotImplementedError

    def make_output_norm(self, stage: StagePlan) -> nn.Module | None:
        """Build the norm of a returned map, which the next stage does not receive; None for no
        norm.
        """
        return nn.LayerNorm(stage.embed_dims, self.norm_eps)

    @property
    def out_channels(self) -> tuple[int, ...]:
        """Channels of the returned maps."""
        channels = tuple(self.stages[index].embed.out_channels for index in self.out_indices)
        return (*channels[:-1], self.last_channels) if self.last_channels else channels

    @property
    def out_strides(self) -> tuple[int, ...]:
        """Strides of the returned maps, whose sides are the image sides divided by the stride,
        rounded up.
        """
        strides = list(accumulate((stage.embed.stride for stage in self.stages), mul))
        return tuple(strides[index] for index in self.out_indices)

    def layers(self) -> list[list[str]]:
        names: list[list[str]] = [[]]
        for i, stage in enumerate(self.stages):
            # The downsampling of a later stage belongs to the layer of its first block.
            first = len(names) if i else 0
            for j in range(len(stage.blocks)):
                names.append([f'stages.{i}.blocks.{j}.'])
            names[first] += [f'stages.{i}.embed.', f'stages.{i}.position.']
            names[-1].append(f'stages.{i}.norm.')
        return names

    def modules_to_freeze(self) -> list[nn.Module | nn.Parameter]:
        if self.frozen_stages < 0:
            return []
        frozen = [self.stages[0].embed, *self.stages[: self.frozen_stages]]
        for index, norm in self.norms.items():
            if int(index) < self.frozen_stages:
                frozen.append(norm)
        return frozen

    def forward(self, image_B3HW: Tensor) -> tuple[Tensor, ...]:
        x = image_B3HW
        outputs = []
        for index, stage in enumerate(self.stages):
            tokens, hw_shape = stage(x)
            x = tokens_to_map(tokens, hw_shape)
            if index in self.out_indices:
                normed = self.norms[str(index)](tokens) if str(index) in self.norms else tokens
                outputs.append(output_map(normed, hw_shape))
        return tuple(outputs)


class Stage(BaseModule):
    """A stage: downsampling, blocks and, in some families, a final norm.

    Args:
        embed: `(B, C', H', W') -> (B, N, C), (H, W)`, with attributes `out_channels` and `stride`.
        blocks: called as `block(x_BNC, hw_shape)`.
        norm: norm of the output, which the next stage also receives normalised (PVTv2).
        position: adds positions to the tokens before the blocks, called as
            `position(x_BNC, hw_shape)` (PVT).
    """

    with_cp = False

    def __init__(
        self,
        embed: nn.Module,
        blocks: Sequence[nn.Module],
        norm: nn.Module | None = None,
        position: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.embed = embed
        self.position = position
        self.blocks = ModuleList(blocks)
        self.norm = nn.Identity() if norm is None else norm

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, tuple[int, int]]:
        x_BNC, hw_shape = self.embed(x_BCHW)
        if self.position is not None:
            x_BNC = self.position(x_BNC, hw_shape)
        x_BNC = run_blocks(self.blocks, x_BNC, hw_shape, self.with_cp)
        return self.norm(x_BNC), hw_shape


class ClassTokenStage(Stage):
    """A last stage whose embedding prepends a class token. It returns only the token, as a 1 x 1
    map.
    """

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, tuple[int, int]]:
        x_BNC, _ = super().forward(x_BCHW)
        return x_BNC[:, :1], (1, 1)
