"""BiFPN: a feature pyramid that is fused from coarse to fine and back, with learned weights."""
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
    """`norm(conv(swish(sum_i w_i x_i / (sum_i w_i + 1e-4))))` of maps of one size, `w` learned and not negative.

    This is EfficientDet's fast normalized fusion (sec. 3.3) and the 3 x 3 convolution after it.
    """

    def __init__(self, num_maps: int, channels: int, norm_cfg: dict) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.ones(num_maps))
        self.conv = ConvModule(channels, channels, 3, padding=1, norm_cfg=norm_cfg, act_cfg=None)

    def forward(self, *maps_BCHW: Tensor) -> Tensor:
        weights = self.weights.relu()
        weights = weights / (weights.sum() + _EPS)
        return self.conv(F.silu(sum(weight * x_BCHW for weight, x_BCHW in zip(weights, maps_BCHW))))


class BiFPNLayer(nn.Module):
    """One way down and up: every level but the finest ends as a fusion of itself, its way down, and the finer level."""

    def __init__(self, num_levels: int, channels: int, norm_cfg: dict) -> None:
        super().__init__()
        self.top_down = nn.ModuleList(Fusion(2, channels, norm_cfg) for _ in range(num_levels - 1))
        self.bottom_up = nn.ModuleList(
            Fusion(2 if level == num_levels - 1 else 3, channels, norm_cfg) for level in range(1, num_levels))

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """Maps from fine to coarse in and out, of the same shapes; the fusions are listed in the same order."""
        coarsest = len(maps) - 1
        down = list(maps)
        for level in reversed(range(coarsest)):
            larger = F.interpolate(down[level + 1], size=maps[level].shape[-2:], mode='nearest')
            down[level] = self.top_down[level](maps[level], larger)
        outputs = down[:1]
        for level, fuse in enumerate(self.bottom_up, start=1):
            # The coarsest level has no way down: its map would enter twice.
            own = (maps[level],) if level == coarsest else (down[level], maps[level])
            outputs.append(fuse(_halve(outputs[-1]), *own))
        return outputs


@MODELS.register_module()
class BiFPN(BaseModule):
    """EfficientDet's bidirectional feature pyramid, with plain convolutions, on any backbone.

    Levels beyond the backbone's are its last map, max-pooled (3 x 3, stride 2) again and again; a 1 x 1 convolution
    brings each to `out_channels`, then `num_layers` times the levels are fused.

    Source: *EfficientDet: Scalable and Efficient Object Detection* (arXiv:1911.09070), sec. 3.2 and 3.3, as Swin's
    RepPoints V2 has it (`neck` of `reppointsv2_swin_bifpn.py`, code from github.com/MendelXu/RepPointsV2): a norm
    after every convolution, one lateral per level, plain convolutions where EfficientDet's are separable, and extra
    levels pooled before their laterals.

    Args:
        in_channels: channels of the backbone's maps, from fine to coarse.
        out_channels: channels of every level.
        num_outs: levels, those of the backbone included.
        num_layers: ways down and up.
        norm_cfg: norm after each convolution, as mmcv builds it.

    Raises:
        ValueError: fewer levels than maps.
    """

    def __init__(self, in_channels: Sequence[int], out_channels: int = 256, num_outs: int = 5, num_layers: int = 2,
                 norm_cfg: dict = _GROUP_NORM,
                 init_cfg: dict | list | None = dict(type='Xavier', layer='Conv2d', distribution='uniform')) -> None:
        super().__init__(init_cfg)
        self.in_channels = list(in_channels)
        self.num_outs = num_outs
        extra = num_outs - len(self.in_channels)
        if extra < 0:
            raise ValueError(f'num_outs ({num_outs}) must be at least {len(self.in_channels)}, the number of '
                             f'in_channels ({self.in_channels})')
        channels = self.in_channels + extra * self.in_channels[-1:]
        self.laterals = nn.ModuleList(
            ConvModule(width, out_channels, 1, norm_cfg=norm_cfg, act_cfg=None) for width in channels)
        self.layers = nn.ModuleList(BiFPNLayer(num_outs, out_channels, norm_cfg) for _ in range(num_layers))

    def forward(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Maps `(B, in_channels[i], H_i, W_i)`, each half as large as the last, rounded up; out `(B, C, H_i, W_i)`.

        Raises:
            ValueError: the maps have other channels than `in_channels`.
        """
        found = [x_BCHW.shape[1] for x_BCHW in inputs]
        if found != self.in_channels:
            raise ValueError(f'in_channels ({self.in_channels}) must be the channels of the maps of the backbone, '
                             f'which are {found}')
        maps = list(inputs)
        while len(maps) < self.num_outs:
            maps.append(_halve(maps[-1]))
        maps = [lateral(x_BCHW) for lateral, x_BCHW in zip(self.laterals, maps)]
        for layer in self.layers:
            maps = layer(maps)
        return tuple(maps)


def _halve(x_BCHW: Tensor) -> Tensor:
    return F.max_pool2d(x_BCHW, 3, stride=2, padding=1)
