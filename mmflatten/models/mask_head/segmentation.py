"""Mask head of mmseg for semantic segmentation, and its segmentor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mmseg.models import EncoderDecoder
from mmseg.models.decode_heads import Mask2FormerHead
from torch import Tensor

from mmflatten.models.backbones.plain import PartlyEncoded
from mmflatten.models.mask_head.head import EncoderMaskHead
from mmflatten.registry import MODELS


@MODELS.register_module()
class EncoderMaskSegHead(EncoderMaskHead, Mask2FormerHead):
    """`EncoderMaskHead` for semantic segmentation: one target per class in the image.

    Targets and prediction are those of mmseg's `Mask2FormerHead`: the logits of a pixel are its
    mask probabilities, weighted by the class probabilities of the queries. The model is
    `EncoderMaskSegmentor`.

    Args:
        in_channels: as in `EncoderMaskHead`.
        num_classes: number of classes.
        ignore_index: label of pixels that are no target. They count as outside of every mask.
        align_corners: of the resizing to the original image.
        options: further arguments of `EncoderMaskHead`.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        num_classes: int = 150,
        *,
        ignore_index: int = 255,
        align_corners: bool = False,
        **options: Any,
    ) -> None:
        EncoderMaskHead.__init__(
            self, in_channels, num_things_classes=num_classes, num_stuff_classes=0, **options
        )
        self.ignore_index = ignore_index
        self.align_corners = align_corners
        self.out_channels = num_classes


@MODELS.register_module()
class EncoderMaskSegmentor(EncoderDecoder):
    """mmseg's `EncoderDecoder` with an `EncoderMaskSegHead`.

    With `decode_head.joint` the last blocks of the backbone run in the head, as in
    `EncoderMaskDetector`.
    """

    def extract_feat(self, inputs: Tensor) -> Sequence[Tensor] | PartlyEncoded:
        network = self.decode_head.network
        if network.joint:
            return self.backbone.forward_until(inputs, network.num_blocks)
        return super().extract_feat(inputs)
