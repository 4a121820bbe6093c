"""Models without attention: backbones as baselines, and mixers as controls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmengine.model import BaseModule
from torch import Tensor, nn

from mmflatten.models.attention import TokenMixer
from mmflatten.models.attention.maps import Maps, mean_of_real
from mmflatten.models.layers import conv_bn
from mmflatten.registry import MODELS


@MODELS.register_module()
class Pixels(BaseModule):
    """The pixels of an image, averaged over the colours: `(B, 3, H, W) -> (B, H W)`.

    With a linear head, this is logistic regression.
    """

    def forward(self, image_B3HW: Tensor) -> tuple[Tensor]:
        return (image_B3HW.mean(dim=1).flatten(1),)


@MODELS.register_module()
class SmallCNN(BaseModule):
    """3 x 3 convolutions with batch norm and ReLU, each with stride 2 but the first, then the mean:
    `(B, C)`.

    Args:
        channels: of each convolution.
    """

    def __init__(
        self, channels: Sequence[int] = (32, 64, 128), init_cfg: dict | None = None
    ) -> None:
        super().__init__(init_cfg)
        layers: list[nn.Module] = []
        inputs = 3
        stride = 1
        for outputs in channels:
            layers += [*conv_bn(inputs, outputs, 3, stride), nn.ReLU()]
            inputs = outputs
            stride = 2
        self.layers = nn.Sequential(*layers)

    def forward(self, image_B3HW: Tensor) -> tuple[Tensor]:
        return (self.layers(image_B3HW).mean(dim=(2, 3)),)


@MODELS.register_module()
class NoAttention(TokenMixer):
    """Control: the values themselves, so that no token reads another one.

    The projections of queries and keys are there and stay unused. `sr_ratio` is ignored: a reduced
    map would mix tokens.
    """

    def __init__(self, *args: Any, sr_ratio: int = 1, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, maps: Maps) -> Tensor:
        return v


@MODELS.register_module()
class MeanAttention(TokenMixer):
    """Control: every token gets the mean of all values, whatever the queries and keys are."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, maps: Maps) -> Tensor:
        return mean_of_real(v, maps.mask).mean(dim=-2, keepdim=True).expand_as(q)
