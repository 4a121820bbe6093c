"""BiFPN: a feature pyramid fused top-down and bottom-up with learned weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from mmcv.cnn import ConvModule
from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.registry import MODELS

_EPS = 1e-4
_GROUP_NORM = dict(type='GN', num_groups=32, requires_grad=True)


class Fusion(nn.Module):
    """`norm(conv(swish(sum_i w_i x_i / (sum_i w_i + 1e-4))))` of maps of the same size, with
    learned `w_i >= 0`.

    EfficientDet's fast normalized fusion (sec. 3.3), followed by a 3 x 3 convolution.
    """

    def __init__(self, num_maps: int, channels: int, norm_cfg: dict) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.ones(num_maps))
        self.conv = ConvModule(channels, channels, 3, padding=1, norm_cfg=norm_cfg, act_cfg=None)

    def forward(self, *maps_BCHW: Tensor) -> Tensor:
        weights = self.weights.relu()
        weights = weights / (weights.sum() + _EPS)
        fused = sum(weight * x_BCHW for weight, x_BCHW in zip(weights, maps_BCHW))
        return self.conv(F.silu(fused))


class BiFPNLayer(nn.Module):
    """One top-down and one bottom-up pass.

    The output of a level fuses its input, its top-down map and the output of the next finer level.
    The finest level has only the top-down pass, the coarsest only the bottom-up pass.
    """

    def __init__(self, num_levels: int, channels: int, norm_cfg: dict) -> None:
        super().__init__()
        self.top_down = nn.ModuleList(Fusion(2, channels, norm_cfg) for _ in range(num_levels - 1))
        self.bottom_up = nn.ModuleList(
            Fusion(2 if level == num_levels - 1 else 3, channels, norm_cfg)
            for level in range(1, num_levels)
        )

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """Fuse maps, ordered from fine to coarse. The output has the same order and shapes."""
        coarsest = len(maps) - 1
        down = list(maps)
        for level in reversed(range(coarsest)):
            larger = F.interpolate(down[level + 1], size=maps[level].shape[-2:], mode='nearest')
            down[level] = self.top_down[level](maps[level], larger)
        outputs = down[:1]
        for level, fuse in enumerate(self.bottom_up, start=1):
            # The coarsest level has no top-down map, so its input must not enter twice.
            inputs = (maps[level],) if level == coarsest else (down[level], maps[level])
            outputs.append(fuse(_halve(outputs[-1]), *inputs))
        return outputs


@MODELS.register_module()
class BiFPN(BaseModule):
    """EfficientDet's bidirectional feature pyramid with plain convolutions, for any backbone.

    Levels beyond those of the backbone are its last map after repeated max pooling (3 x 3, stride
    2). A 1 x 1 convolution maps each level to `out_channels`, then `num_layers` layers fuse the
    levels.

    Source: *EfficientDet: Scalable and Efficient Object Detection* (arXiv:1911.09070), sec. 3.2 and
    3.3, in the version of Swin's RepPoints V2 (`neck` of `reppointsv2_swin_bifpn.py`, code from
    github.com/MendelXu/RepPointsV2): a norm after every convolution, one lateral convolution per
    level, plain instead of separable convolutions, and extra levels pooled before their lateral
    convolutions.

    Args:
        in_channels: channels of the backbone's maps, from fine to coarse.
        out_channels: channels of every level.
        num_outs: number of levels, including those of the backbone.
        num_layers: number of fusion layers, each a top-down and a bottom-up pass.
        norm_cfg: config of the norm after each convolution.

    Raises:
        ValueError: fewer levels than maps.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        out_channels: int = 256,
        num_outs: int = 5,
        num_layers: int = 2,
        norm_cfg: dict = _GROUP_NORM,
        init_cfg: dict | list | None = dict(type='Xavier', layer='Conv2d', distribution='uniform'),
    ) -> None:
        super().__init__(init_cfg)
        self.in_channels = list(in_channels)
        self.num_outs = num_outs
        extra = num_outs - len(self.in_channels)
        if extra < 0:
            raise ValueError(
                f'num_outs: expected at least {len(self.in_channels)}, the number of in_channels '
                f'({self.in_channels}), got {num_outs}.'
            )
        channels = self.in_channels + extra * self.in_channels[-1:]
        self.laterals = nn.ModuleList(
            ConvModule(width, out_channels, 1, norm_cfg=norm_cfg, act_cfg=None)
            for width in channels
        )
        self.layers = nn.ModuleList(
            BiFPNLayer(num_outs, out_channels, norm_cfg) for _ in range(num_layers)
        )

    def forward(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Compute levels `(B, C, H_i, W_i)` from maps `(B, in_channels[i], H_i, W_i)`.

        Each map has half the sides of the previous one, rounded up.

        Raises:
            ValueError: the channels of the maps differ from `in_channels`.
        """
        channels = [x_BCHW.shape[1] for x_BCHW in inputs]
        if channels != self.in_channels:
            raise ValueError(
                f'in_channels: expected {channels}, the channels of the maps of the backbone, '
                f'got {self.in_channels}.'
            )
        maps = list(inputs)
        while len(maps) < self.num_outs:
            maps.append(_halve(maps[-1]))
        maps = [lateral(x_BCHW) for lateral, x_BCHW in zip(self.laterals, maps)]
        for layer in self.layers:
            maps = layer(maps)
        return tuple(maps)


def _halve(x_BCHW: Tensor) -> Tensor:
    return F.max_pool2d(x_BCHW, 3, stride=2, padding=1)
