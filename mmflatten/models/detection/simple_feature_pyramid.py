"""Feature pyramid from the single map of a plain backbone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch.nn.functional as F
from mmengine.model import BaseModule, ModuleList
from torch import Tensor, nn

from mmflatten.ops.sizes import is_exporting
from mmflatten.registry import MODELS

SCALES = (4.0, 2.0, 1.0, 0.5)
_EPS = 1e-6


class ChannelNorm(nn.LayerNorm):
    """`LayerNorm` over the channels of a map `(B, C, H, W)`, at each position."""

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return super().forward(x_BCHW.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class _HalvingPool(nn.Module):
    """Maximum of 2 x 2 tokens, `(B, C, H, W)` to `(B, C, ceil(H / 2), ceil(W / 2))`."""

    def forward(self, x_BCHW: Tensor) -> Tensor:
        if not is_exporting():
            return F.max_pool2d(x_BCHW, 2, ceil_mode=True)
        # PyTorch's pooling with a stride of 2 asks for properties of an open size that it cannot
        # prove. With a stride of 1 it does not; every second maximum is the same. The repeated
        # row and column do not change a maximum.
        maxima_BCHW = F.max_pool2d(F.pad(x_BCHW, (0, 1, 0, 1), mode='replicate'), 2, stride=1)
        return maxima_BCHW[:, :, ::2, ::2]


@MODELS.register_module()
class SimpleFeaturePyramid(BaseModule):
    """ViTDet's simple feature pyramid: each level is computed separately from the last map of a
    plain backbone.

    Transposed convolutions enlarge the map, max pooling halves it, and two normalised convolutions
    (1 x 1 and 3 x 3) map each level to `out_channels`. Levels are not connected. Works with models
    of mmdet and mmseg. Source: Li et al., Exploring Plain Vision Transformer Backbones for Object
    Detection (ECCV 2022), sec. 3.

    Args:
        in_channels: channels of the backbone's map.
        out_channels: channels of every level.
        scales: sizes of the levels relative to the map, among 4, 2, 1 and 0.5, from fine to coarse.
            By default a map of stride 16 gives strides 4, 8, 16 and 32. Odd sides are halved
            upwards.
        num_outs: number of levels. Levels beyond `scales` subsample the previous level by 2, as in
            FPN. None for one level per scale.

    Raises:
        ValueError: unknown or unordered scales, or fewer levels than scales.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int = 256,
        scales: Sequence[float] = SCALES,
        num_outs: int | None = None,
        init_cfg: dict | list | None = None,
    ) -> None:
        super().__init__(init_cfg)
        scales = tuple(scales)
        if (
            not scales
            or set(scales) - set(SCALES)
            or list(scales) != sorted(set(scales), reverse=True)
        ):
            raise ValueError(
                f'scales: expected distinct values among {SCALES} in descending order, got'
                f' {scales}.'
            )
        self.num_outs = len(scales) if num_outs is None else num_outs
        if self.num_outs < len(scales):
            raise ValueError(
                f'num_outs: expected at least {len(scales)}, the number of scales, got {num_outs}.'
            )
        # size of the coarsest level relative to the map
        self.coarsest_scale = min(scales) / 2 ** (self.num_outs - len(scales))
        self.in_channels = in_channels
        self.levels = ModuleList(_level(in_channels, out_channels, scale) for scale in scales)

    def forward(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Compute `num_outs` maps of `out_channels` from the last map of a backbone.

        Raises:
            ValueError: the channels of the map differ from `in_channels`.
        """
        x_BCHW = inputs[-1]
        if x_BCHW.shape[1] != self.in_channels:
            raise ValueError(
                f'in_channels: expected {x_BCHW.shape[1]}, the channels of the last map of the'
                f' backbone, got {self.in_channels}.'
            )
        # mmcv's RoIAlign reads every tensor as if it were contiguous.
        outputs = [level(x_BCHW).contiguous() for level in self.levels]
        while len(outputs) < self.num_outs:
            outputs.append(F.max_pool2d(outputs[-1], 1, stride=2))
        return tuple(outputs)


def _level(in_channels: int, out_channels: int, scale: float) -> nn.Sequential:
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    channels = in_channels
    if scale < 1:
        layers['halve'] = _HalvingPool()
    if scale > 1:
        channels //= 2
        layers['enlarge'] = _double(in_channels, channels)
    if scale > 2:
        layers.update(
            norm=ChannelNorm(channels, _EPS),
            act=nn.GELU(),
            enlarge_again=_double(channels, channels // 2),
        )
        channels //= 2
    layers.update(
        lateral=nn.Conv2d(channels, out_channels, 1, bias=False),
        lateral_norm=ChannelNorm(out_channels, _EPS),
        smooth=nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
        smooth_norm=ChannelNorm(out_channels, _EPS),
    )
    return nn.Sequential(layers)


def _double(in_channels: int, out_channels: int) -> nn.ConvTranspose2d:
    return nn.ConvTranspose2d(in_channels, out_channels, kernel_size=2, stride=2)
