"""The two 3-D networks of PSMNet, which compute disparity scores from a cost volume."""

from __future__ import annotations

from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.models.stereo.conv import ConvNorm

NUM_BLOCKS = 4  # residual blocks in `BasicAggregation`
NUM_HOURGLASSES = 3
conv3d = partial(ConvNorm, 3, kernel_size=3)


class UpConv3d(nn.Module):
    """Transposed convolution of stride 2 with batch norm.

    The output size is an argument, so that volumes with odd sides recover their size.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose3d(
            in_channels, out_channels, 3, stride=2, padding=1, bias=False
        )
        self.bn = nn.BatchNorm3d(out_channels)

    def forward(self, x: Tensor, like: Tensor) -> Tensor:
        """Double the sides of `x` to those of `like`."""
        return self.bn(self.conv(x, output_size=like.shape[2:]))


class Hourglass(nn.Module):
    """3-D encoder-decoder down to a quarter of the sides, with shortcuts within and between
    hourglasses.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        wide = 2 * channels
        self.down1 = conv3d(channels, wide, stride=2)
        self.conv1 = conv3d(wide, wide, relu=False)
        self.down2 = conv3d(wide, wide, stride=2)
        self.conv2 = conv3d(wide, wide)
        self.up1 = UpConv3d(wide, wide)
        self.up2 = UpConv3d(wide, channels)

    def forward(
        self, x: Tensor, before: Tensor | None = None, after: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Process a volume `(B, C, D, H, W)`.

        Args:
            x: volume.
            before: encoder output of an earlier hourglass at half the sides.
            after: decoder output of an earlier hourglass at half the sides.

        Returns:
            The output volume, without a shortcut around the hourglass, and the encoder and decoder
            outputs at half the sides, `(B, 2 C, ...)`.
        """
        down = self.conv1(self.down1(x))
        down = F.relu(down if after is None else down + after)
        up = self.up1(self.conv2(self.down2(down)), like=down)
        up = F.relu(up + (down if before is None else before))
        return self.up2(up, like=x), down, up


class ScoreHead(nn.Sequential):
    """`(B, C, D, H, W) -> (B, 1, D, H, W)`."""

    def __init__(self, channels: int) -> None:
        super().__init__(conv3d(channels, channels), conv3d(channels, 1, norm=False, relu=False))


class ResidualConvs(nn.Sequential):
    """Two convolutions with a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__(conv3d(channels, channels), conv3d(channels, channels, relu=False))

    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


class BasicAggregation(nn.Module):
    """Residual blocks at one resolution with one estimate of the scores; `basic` in the official
    code.
    """

    loss_weights = (1.0,)

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv3d(2 * channels, channels), conv3d(channels, channels))
        self.blocks = nn.Sequential(*(ResidualConvs(channels) for _ in range(NUM_BLOCKS)))
        self.head = ScoreHead(channels)

    def forward(self, volume: Tensor) -> list[Tensor]:
        """`(B, 2 C, D, H, W) -> [(B, 1, D, H, W)]`."""
        return [self.head(self.blocks(self.stem(volume)))]


class StackedHourglass(nn.Module):
    """Three hourglasses, each adding its scores to the previous ones; `stackhourglass` in the
    official code.
    """

    loss_weights = (0.5, 0.7, 1.0)

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv3d(2 * channels, channels), conv3d(channels, channels))
        self.refine = ResidualConvs(channels)
        self.hourglasses = nn.ModuleList(Hourglass(channels) for _ in range(NUM_HOURGLASSES))
        self.heads = nn.ModuleList(ScoreHead(channels) for _ in range(NUM_HOURGLASSES))

    def forward(self, volume: Tensor) -> list[Tensor]:
        """`(B, 2 C, D, H, W) -> [(B, 1, D, H, W)] * 3`; the last estimate is the best."""
        start = out = self.refine(self.stem(volume))
        before, after = None, None
        scores: list[Tensor] = []
        for hourglass, head in zip(self.hourglasses, self.heads):
            out, down, after = hourglass(out, before, after)
            out = out + start
            if before is None:  # that of the first hourglass, as in the official code
                before = down
            score = head(out)
            if scores:
                score = score + scores[-1]
            scores.append(score)
        return scores


AGGREGATIONS: dict[str, type[BasicAggregation] | type[StackedHourglass]] = {
    'basic': BasicAggregation,
    'stackhourglass': StackedHourglass,
}
