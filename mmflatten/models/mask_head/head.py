"""Mask head of mmdet for instance and panoptic segmentation, and its detector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from mmdet.models import Mask2FormerHead, MaskFormer
from mmdet.registry import MODELS as MMDET_MODELS
from mmdet.registry import TASK_UTILS
from mmengine.model import BaseModule
from torch import Tensor

from mmflatten.models.backbones.plain import PartlyEncoded
from mmflatten.models.mask_head.network import EncoderMaskNetwork
from mmflatten.ops.sizes import same_size
from mmflatten.registry import MODELS

_CLASS_LOSS = dict(type='mmdet.CrossEntropyLoss', use_sigmoid=False, loss_weight=2.0)
_MASK_LOSS = dict(type='mmdet.CrossEntropyLoss', use_sigmoid=True, loss_weight=5.0)
_DICE_LOSS = dict(
    type='mmdet.DiceLoss',
    use_sigmoid=True,
    activate=True,
    reduction='mean',
    naive_dice=True,
    eps=1.0,
    loss_weight=5.0,
)
_COSTS = [
    dict(type='mmdet.ClassificationCost', weight=2.0),
    dict(type='mmdet.CrossEntropyLossCost', weight=5.0, use_sigmoid=True),
    dict(type='mmdet.DiceCost', weight=5.0, pred_act=True, eps=1.0),
]


@MODELS.register_module()
class EncoderMaskHead(Mask2FormerHead):
    """Classes and masks of queries that join the tokens of the last blocks, `EncoderMaskNetwork`.

    Matching, losses on sampled points and prediction are those of mmdet's `Mask2FormerHead`, with
    the weights of EoMT, which are also Mask2Former's. The model is `EncoderMaskDetector`.

    Args:
        in_channels: channels of the maps of the backbone; with `joint` those of its tokens.
        num_things_classes: classes of instances.
        num_stuff_classes: classes of regions, which come after those of instances.
        no_object_weight: weight of "no object" in the loss of classes.
        loss_cls, loss_mask, loss_dice: losses of mmdet. `class_weight` of `loss_cls` is set by the
            head.
        train_cfg: `num_points`, `oversample_ratio` and `importance_sample_ratio` of the sampled
            points, and `assigner` and `sampler` of mmdet.
        test_cfg: unused, for mmdet.
        options: further arguments of `EncoderMaskNetwork`.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        num_things_classes: int = 80,
        num_stuff_classes: int = 0,
        *,
        no_object_weight: float = 0.1,
        loss_cls: dict = _CLASS_LOSS,
        loss_mask: dict = _MASK_LOSS,
        loss_dice: dict = _DICE_LOSS,
        train_cfg: dict | None = None,
        test_cfg: dict | None = None,
        init_cfg: dict | None = None,
        **options: Any,
    ) -> None:
        # Without mmdet's constructor, which builds the decoders of Mask2Former.
        BaseModule.__init__(self, init_cfg)
        self.num_things_classes = num_things_classes
        self.num_stuff_classes = num_stuff_classes
        self.num_classes = num_things_classes + num_stuff_classes
        self.network = EncoderMaskNetwork(in_channels, self.num_classes, **options)
        self.num_queries = self.network.queries.num_embeddings
        self.class_weight = [1.0] * self.num_classes + [no_object_weight]
        self.loss_cls = MMDET_MODELS.build(dict(loss_cls, class_weight=self.class_weight))
        self.loss_mask = MMDET_MODELS.build(loss_mask)
        self.loss_dice = MMDET_MODELS.build(loss_dice)
        self.train_cfg = train_cfg
        self.test_cfg = test_cfg
        self._build_matching(**(train_cfg or {}))

    def _build_matching(
        self,
        num_points: int = 12544,
        oversample_ratio: float = 3.0,
        importance_sample_ratio: float = 0.75,
        assigner: dict | None = None,
        sampler: dict | None = None,
    ) -> None:
        self.num_points = num_points
        self.oversample_ratio = oversample_ratio
        self.importance_sample_ratio = importance_sample_ratio
        if assigner is None:
            assigner = dict(type='mmdet.HungarianAssigner', match_costs=_COSTS)
        if sampler is None:
            sampler = dict(type='mmdet.MaskPseudoSampler')
        self.assigner = TASK_UTILS.build(assigner)
        self.sampler = TASK_UTILS.build(sampler)

    def init_weights(self) -> None:
        """Initialise the network; mmdet's method initialises the decoders of Mask2Former."""
        self.network.init_weights()

    def forward(
        self, x: Sequence[Tensor] | PartlyEncoded, batch_data_samples: Any = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Class and mask logits of `EncoderMaskNetwork`, whose masks cover the image alone."""
        class_logits, mask_logits = self.network(x)
        if isinstance(x, PartlyEncoded):
            mask_logits = [_crop(masks_BQHW, x) for masks_BQHW in mask_logits]
        return class_logits, mask_logits


@MODELS.register_module()
class EncoderMaskDetector(MaskFormer):
    """mmdet's `MaskFormer` for instance and panoptic segmentation with an `EncoderMaskHead`.

    With `panoptic_head.joint` the last blocks of the backbone run in the head. Their weights keep
    their names in the backbone, so its checkpoints, freezing and rates by layer apply.
    """

    def extract_feat(self, batch_inputs: Tensor) -> Sequence[Tensor] | PartlyEncoded:
        network = self.panoptic_head.network
        if network.joint:
            return self.backbone.forward_until(batch_inputs, network.num_blocks)
        return super().extract_feat(batch_inputs)


def _crop(masks_BQHW: Tensor, encoded: PartlyEncoded) -> Tensor:
    """Remove the padding of the patch embedding: resize the masks to pixels, then crop them.

    Nothing is done for images of whole patches, which `pad_size_divisor` or `size_divisor` of the
    data preprocessor gives.
    """
    if same_size(encoded.padded_shape, encoded.image_shape):
        return masks_BQHW
    height, width = encoded.image_shape
    masks_BQHW = F.interpolate(masks_BQHW, size=encoded.padded_shape, mode='bilinear')
    return masks_BQHW[..., :height, :width]
