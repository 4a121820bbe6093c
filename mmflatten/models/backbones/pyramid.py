"""Skeleton of a hierarchical backbone: a loop over stages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from mmengine.model import BaseModule, ModuleDict, ModuleList
from torch import Tensor, nn

from mmflatten.models.backbones.base import Backbone, check_indices, run_blocks
from mmflatten.models.layers import output_map, tokens_to_map


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
        return self.norm(run_blocks(self.blocks, x_BNC, hw_shape, self.with_cp)), hw_shape


class ClassTokenStage(Stage):
    """A last stage whose embedding prepends a class token. It returns only the token, as a 1 x 1
    map.
    """

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, tuple[int, int]]:
        x_BNC, _ = super().forward(x_BCHW)
        return x_BNC[:, :1], (1, 1)


class PyramidBackbone(Backbone):
    """A sequence of stages: image `(B, 3, H, W)` -> maps `(B, C_i, H_i, W_i)` for `i` in
    `out_indices`.

    Args:
        stages: all stages, of which the first `max(out_indices) + 1` are used.
        output_norms: one norm per stage, applied to the returned map but not to the input of the
            next stage; None for no norms.
        out_indices, frozen_stages, with_cp, init_cfg, progressive_norm: as in `Backbone`.
    """

    last_channels = 0  # of a projection of the last map; 0 without

    def __init__(
        self,
        stages: Sequence[Stage],
        output_norms: Sequence[nn.Module] | None,
        out_indices: Sequence[int] = (0, 1, 2, 3),
        frozen_stages: int = -1,
        with_cp: bool = False,
        init_cfg: dict | list | None = None,
        progressive_norm: int = 0,
    ) -> None:
        super().__init__(frozen_stages, init_cfg)
        self.out_indices = check_indices(out_indices, len(stages), 'stage')
        self.stages = ModuleList(stages[: self.out_indices[-1] + 1])
        # the last map is then that of the classifier
        self.is_whole = len(self.stages) == len(stages)
        for stage in self.stages:
            stage.with_cp = with_cp
        norms = {} if output_norms is None else {str(i): output_norms[i] for i in self.out_indices}
        self.norms = ModuleDict(norms)
        self.finish(len(self.stages), progressive_norm)

    @property
    def out_channels(self) -> tuple[int, ...]:
        """Channels of the returned maps."""
        channels = tuple(self.stages[i].embed.out_channels for i in self.out_indices)
        return (*channels[:-1], self.last_channels) if self.last_channels else channels

    @property
    def out_strides(self) -> tuple[int, ...]:
        """Strides of the returned maps, whose sides are the image sides divided by the stride,
        rounded up.
        """
        strides = list(accumulate((stage.embed.stride for stage in self.stages), mul))
        return tuple(strides[i] for i in self.out_indices)

    def layers(self) -> list[list[str]]:
        names: list[list[str]] = [[]]
        for i, stage in enumerate(self.stages):
            # The downsampling of a later stage belongs to the layer of its first block.
            first = len(names) if i else 0
            names += [[f'stages.{i}.blocks.{j}.'] for j in range(len(stage.blocks))]
            names[first] += [f'stages.{i}.embed.', f'stages.{i}.position.']
            names[-1].append(f'stages.{i}.norm.')
        return names

    def modules_to_freeze(self) -> list[nn.Module | nn.Parameter]:
        if self.frozen_stages < 0:
            return []
        frozen = [self.stages[0].embed, *self.stages[: self.frozen_stages]]
        return frozen + [
            self.norms[str(i)] for i in range(self.frozen_stages) if str(i) in self.norms
        ]

    def forward(self, image_B3HW: Tensor) -> tuple[Tensor, ...]:
        x, outputs = image_B3HW, []
        for index, stage in enumerate(self.stages):
            tokens, hw_shape = stage(x)
            x = tokens_to_map(tokens, hw_shape)
            if index in self.out_indices:
                normed = self.norms[str(index)](tokens) if str(index) in self.norms else tokens
                outputs.append(output_map(normed, hw_shape))
        return tuple(outputs)
