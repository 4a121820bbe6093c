"""Features of regions, from the maps of a pyramid, and masks of regions in the image."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torchvision
from torch import Tensor, nn

from mmflatten.export.wrappers import ExportError


class RegionFeatures(nn.Module):
    """Features of boxes by RoIAlign, as mmdet's `SingleRoIExtractor` computes them.

    Each box is pooled from one map, chosen by its size: feature pyramid networks
    (arXiv:1612.03144), equation 1.
    """

    def __init__(self, extractor: nn.Module) -> None:
        super().__init__()
        from mmdet.models.roi_heads.roi_extractors import SingleRoIExtractor

        if type(extractor) is not SingleRoIExtractor:
            raise ExportError(
                'roi_extractor.type: expected SingleRoIExtractor, got'
                f' {type(extractor).__name__}. --features exports backbone and neck.'
            )
        self.layers = list(extractor.roi_layers)
        for layer in self.layers:
            if getattr(layer, 'pool_mode', None) != 'avg':
                raise ExportError(
                    'roi_extractor.roi_layer: expected RoIAlign with pool_mode avg, got'
                    f' {layer}. --features exports backbone and neck.'
                )
        self.finest_scale = extractor.finest_scale

    def forward(self, features: Sequence[Tensor], boxes_BN4: Tensor) -> Tensor:
        """Return `(B * N, C, h, w)` for boxes in pixels."""
        regions_R5 = with_image_index(boxes_BN4)
        if len(self.layers) == 1:
            return self._pool(0, features[0], regions_R5)
        # RoIAlign of runtimes may not accept zero regions: an additional one is in every level.
        level_R = self._levels(regions_R5[:, 1:])
        extended = torch.cat((regions_R5, regions_R5.new_zeros(1, 5)))
        always = torch.ones(1, dtype=torch.bool)
        pooled = None
        for level, feature in enumerate(features[: len(self.layers)]):
            index = torch.cat((level_R == level, always)).nonzero()[:, 0]
            values = self._pool(level, feature, extended[index])
            if pooled is None:
                pooled = values.new_zeros(extended.shape[0], *values.shape[1:])
            pooled = pooled.index_put((index,), values)
        return pooled[:-1]

    def _levels(self, boxes_R4: Tensor) -> Tensor:
        sides = boxes_R4[:, 2:] - boxes_R4[:, :2]
        scale = (sides[:, 0] * sides[:, 1]).sqrt()
        level = (scale / self.finest_scale + 1e-6).log2().floor()
        return level.clamp(0, len(self.layers) - 1).long()

    def _pool(self, level: int, feature: Tensor, regions_R5: Tensor) -> Tensor:
        layer = self.layers[level]
        pooled = torchvision.ops.roi_align(
            feature,
            regions_R5,
            layer.output_size,
            spatial_scale=layer.spatial_scale,
            sampling_ratio=layer.sampling_ratio,
            aligned=layer.aligned,
        )
        if not layer.aligned or layer.sampling_ratio > 0:
            return pooled
        # The mean of no samples, of a region without area, is 0 in PyTorch and ONNX Runtime, and
        # NaN in OpenVINO.
        sides = regions_R5[:, 3:] - regions_R5[:, 1:3]
        has_area = (sides > 0).all(-1)
        return torch.where(has_area[:, None, None, None], pooled, 0)


def with_image_index(boxes_BN4: Tensor) -> Tensor:
    """Return `(B * N, 5)`: the index of the image, and the box."""
    batch, number = boxes_BN4.shape[:2]
    image = torch.arange(batch, dtype=boxes_BN4.dtype)[:, None, None].expand(-1, number, 1)
    return torch.cat((image, boxes_BN4), dim=-1).flatten(0, 1)


def paste(masks_BNhw: Tensor, boxes_BN4: Tensor, size: tuple[int, int]) -> Tensor:
    """Resize masks of boxes bilinearly into images of (H, W) pixels, 0 outside: `(B, N, H, W)`.

    Rows and columns are weighted separately: `rows @ mask @ columns`.
    """
    height, width = masks_BNhw.shape[-2:]
    rows = _weights(boxes_BN4[..., 1], boxes_BN4[..., 3], cells=height, pixels=size[0])
    columns = _weights(boxes_BN4[..., 0], boxes_BN4[..., 2], cells=width, pixels=size[1])
    return rows @ masks_BNhw @ columns.mT


def _weights(low_BN: Tensor, high_BN: Tensor, cells: int, pixels: int) -> Tensor:
    """Return the weight of each cell of a mask for each pixel, `(B, N, pixels, cells)`."""
    length = (high_BN - low_BN).clamp(min=1e-6)[..., None]
    pixel = torch.arange(pixels, dtype=low_BN.dtype) + 0.5
    place = (pixel - low_BN[..., None]) / length * cells - 0.5
    cell = torch.arange(cells, dtype=low_BN.dtype)
    return (1 - (place[..., None] - cell).abs()).clamp(min=0)
