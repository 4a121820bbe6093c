"""A feature pyramid from the one map of a plain backbone."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch.nn.functional as F
from mmengine.model import BaseModule, ModuleList
from torch import Tensor, nn

from mmflatten.registry import MODELS

SCALES = (4., 2., 1., .5)
_EPS = 1e-6


class ChannelNorm(nn.LayerNorm):
    """`LayerNorm` over the channels of each place of a map `(B, C, H, W)`."""

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return super().forward(x_BCHW.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@MODELS.register_module()
class SimpleFeaturePyramid(BaseModule):
    """ViTDet's simple feature pyramid: every level is made from the last map of a plain backbone, by itself.

    Transposed convolutions enlarge the map, max pooling halves it, and two normalised convolutions (1 x 1 and 3 x 3)
    bring each level to `out_channels`. There is no path between levels. Source: Li et al., Exploring Plain Vision
    Transformer Backbones for Object Detection (ECCV 2022), sec. 3. For the classes of mmdet and mmseg alike.

    Args:
        in_channels: channels of the backbone's map.
        out_channels: channels of every level.
        scales: sides of the levels relative to the map's, of 4, 2, 1 and 0.5, from fine to coarse. A map of stride 16
            gives the strides 4, 8, 16 and 32. An odd side is halved upwards.
        num_outs: levels returned; those beyond `scales` take every second place of the one before, as in FPN. None
            for one per scale.

    Raises:
        ValueError: unknown or unordered scales, or fewer levels than scales.
    """

    def __init__(self, in_channels: int, out_channels: int = 256, scales: Sequence[float] = SCALES,
                 num_outs: int | None = None, init_cfg: dict | list | None = None) -> None:
        super().__init__(init_cfg)
        scales = tuple(scales)
        if not scales or set(scales) - set(SCALES) or list(scales) != sorted(set(scales), reverse=True):
            raise ValueError(f'scales ({scales}) must be different ones of {SCALES}, from the largest to the smallest')
        self.num_outs = len(scales) if num_outs is None else num_outs
        if self.num_outs < len(scales):
            raise ValueError(f'num_outs ({num_outs}) must be at least {len(scales)}, the number of scales')
        self.in_channels = in_channels
        self.levels = ModuleList(_level(in_channels, out_channels, scale) for scale in scales)

    def forward(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Maps of a backbone in, of which the last counts; `num_outs` maps of `out_channels` out.

        Raises:
            ValueError: the map has other channels than `in_channels`.
        """
        x_BCHW = inputs[-1]
        if x_BCHW.shape[1] != self.in_channels:
            raise ValueError(f'in_channels ({self.in_channels}) must be the channels of the last map of the backbone, '
                             f'which has {x_BCHW.shape[1]}')
        # Contiguous, because mmcv's RoIAlign takes any tensor for a contiguous one.
        outputs = [level(x_BCHW).contiguous() for level in self.levels]
        while len(outputs) < self.num_outs:
            outputs.append(F.max_pool2d(outputs[-1], 1, stride=2))
        return tuple(outputs)


def _level(in_channels: int, out_channels: int, scale: float) -> nn.Sequential:
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    channels = in_channels
    if scale < 1:
        layers['halve'] = nn.MaxPool2d(2, ceil_mode=True)
    if scale > 1:
        channels //= 2
        layers['enlarge'] = _double(in_channels, channels)
    if scale > 2:
        layers.update(norm=ChannelNorm(channels, _EPS), act=nn.GELU(), enlarge_again=_double(channels, channels // 2))
        channels //= 2
    layers.update(
        lateral=nn.Conv2d(channels, out_channels, 1, bias=False), lateral_norm=ChannelNorm(out_channels, _EPS),
        smooth=nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
        smooth_norm=ChannelNorm(out_channels, _EPS))
    return nn.Sequential(layers)


def _double(in_channels: int, out_channels: int) -> nn.ConvTranspose2d:
    return nn.ConvTranspose2d(in_channels, out_channels, kernel_size=2, stride=2)
