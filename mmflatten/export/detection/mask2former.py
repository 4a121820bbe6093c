"""Mask2Former's deformable pixel decoder with open sizes."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.export.detection import deformable
from mmflatten.models.layers import map_shape


class PixelDecoder(nn.Module):
    """mmdet's `MSDeformAttnPixelDecoder` with open sizes."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, features: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Return the features of the masks, and maps from coarse to fine."""
        decoder = self.decoder
        # The encoder runs on the coarsest maps, the coarsest first.
        encoded = list(features[::-1])[: decoder.num_encoder_levels]
        sizes = [map_shape(x) for x in encoded]
        projected = [conv(x) for conv, x in zip(decoder.input_convs, encoded)]
        positions = []
        for x, level in zip(projected, decoder.level_encoding.weight):
            position = decoder.postional_encoding(None, input=x)
            positions.append(position + level[:, None, None])
        tokens = deformable.encode(
            decoder.encoder.layers,
            deformable.flatten(projected),
            deformable.flatten(positions),
            sizes=sizes,
        )
        maps = []
        split = tokens.transpose(1, 2).split([height * width for height, width in sizes], dim=-1)
        for x, size in zip(split, sizes):
            maps.append(x.unflatten(-1, size))

        # A feature pyramid on the finer maps.
        finer = features[: decoder.num_input_levels - decoder.num_encoder_levels]
        layers = zip(decoder.lateral_convs, decoder.output_convs)
        for x, (lateral, output) in zip(finer[::-1], layers, strict=True):
            x = lateral(x)
            coarser = F.interpolate(
                maps[-1], size=map_shape(x), mode='bilinear', align_corners=False
            )
            maps.append(output(x + coarser))
        return decoder.mask_feature(maps[-1]), maps[: decoder.num_outs]
