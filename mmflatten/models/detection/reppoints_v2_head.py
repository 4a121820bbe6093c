"""RepPoints V2: point regression supported by verification of corners and foreground."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from mmcv.cnn import ConvModule
from mmcv.ops import DeformConv2d
from mmdet.models.dense_heads.corner_head import BiCornerPool
from mmdet.models.dense_heads.reppoints_head import RepPointsHead
from mmdet.models.task_modules.prior_generators import MlvlPointGenerator
from mmdet.registry import MODELS as MMDET_MODELS
from mmdet.structures.bbox import bbox_overlaps
from mmengine.structures import InstanceData
from torch import Tensor, nn

from mmflatten.models.detection.verification import (
    corner_boxes,
    corner_targets,
    foreground_weights,
    normalized_focal_loss,
    refine_corners,
)
from mmflatten.models.layers import map_shape
from mmflatten.registry import MODELS

# Layers that predict rare positives, with a low initial probability.
RARE_OUTPUTS = ('reppoints_cls_out', 'corner_score_outs', 'foreground_out')
CORNER_DIRECTIONS = (['top', 'left'], ['bottom', 'right'])
NUM_VERIFIED = 6  # channels: a score and two offsets for each of two corners


@MODELS.register_module()
class RepPointsV2Head(RepPointsHead):
    """mmdet's RepPoints head with two auxiliary verification tasks.

    An additional convolution on the regression features feeds both tasks. The first predicts a
    foreground map per class and an embedding, which is added to the features of both branches. The
    second predicts heatmaps and offsets of top-left and bottom-right corners by corner pooling,
    which are 6 additional input channels of the refinement. In prediction, box corners move to
    verified corners nearby. Every object is verified on every level.

    Sources: *RepPoints V2: Verification Meets Regression for Object Detection* (arXiv:2007.08508,
    sec. 3). Details that the paper omits follow its code (github.com/Scalsol/RepPointsV2) and
    Swin's release (`reppointsv2_swin_bifpn.py`): the first two points define the box
    (`exact_minmax`), classes are trained by quality focal loss against the IoU of the refined box,
    and boxes by GIoU. Our assumptions: the two points may be in either order, because mmdet's GIoU
    rewards inverted boxes; heatmaps are mmdet's Gaussians.

    Args:
        num_classes: number of classes without background.
        in_channels: channels of every level.
        num_shared_convs: number of verification convolutions on the regression features.
        corner_channels: channels of corner pooling.
        corner_iou: IoU of a box after moving a corner by the radius of the heatmap's Gaussian.
        loss_cls: loss of `(logits, (labels, quality))`.
        loss_bbox_init: loss of the boxes of the first points, in pixels.
        loss_bbox_refine: loss of the boxes of the refined points, in pixels.
        loss_corner: loss of the corner heatmaps.
        loss_offset: loss of the offsets at the cells of corners.
        foreground_weight: weight of the normalized focal loss of the foreground.
        foreground_gamma: its focusing parameter.
        foreground_alpha: its weight of foreground points.
        **kwargs: arguments of `RepPointsHead`.
    """

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        *,
        num_shared_convs: int = 1,
        corner_channels: int = 64,
        corner_iou: float = 0.7,
        loss_cls: dict = dict(type='QualityFocalLoss', use_sigmoid=True, beta=2.0, loss_weight=1.0),
        loss_bbox_init: dict = dict(type='GIoULoss', loss_weight=1.0),
        loss_bbox_refine: dict = dict(type='GIoULoss', loss_weight=2.0),
        loss_corner: dict = dict(type='GaussianFocalLoss', alpha=2.0, gamma=4.0, loss_weight=0.25),
        loss_offset: dict = dict(type='SmoothL1Loss', beta=1 / 9, loss_weight=1.0),
        foreground_weight: float = 0.1,
        foreground_gamma: float = 2.0,
        foreground_alpha: float = 0.25,
        init_cfg: dict | list | None = None,
        **kwargs,
    ) -> None:
        grid = kwargs.get('use_grid_points', False)
        center = kwargs.get('center_init', True)
        if grid or not center:
            raise ValueError(
                'use_grid_points, center_init: RepPointsV2Head predicts points around their centre '
                f'and requires False, True, got {grid}, {center}.'
            )
        # mmdet's `__init__` calls `_init_layers`, which needs these two.
        self.num_shared_convs = num_shared_convs
        self.corner_channels = corner_channels
        super().__init__(
            num_classes,
            in_channels,
            loss_cls=loss_cls,
            loss_bbox_init=loss_bbox_init,
            loss_bbox_refine=loss_bbox_refine,
            transform_method='exact_minmax',
            init_cfg=init_cfg or _default_init(),
            **kwargs,
        )
        self.prior_generator = PointGenerator(self.point_strides, offset=0.0)
        self.corner_iou = corner_iou
        self.loss_corner = MMDET_MODELS.build(loss_corner)
        self.loss_offset = MMDET_MODELS.build(loss_offset)
        self.foreground_weight = foreground_weight
        self.foreground_focus = dict(gamma=foreground_gamma, alpha=foreground_alpha)

    def _init_layers(self) -> None:
        super()._init_layers()
        width = self.feat_channels
        conv = partial(ConvModule, width, width, conv_cfg=self.conv_cfg, norm_cfg=self.norm_cfg)

        # The features of both verification tasks, and the foreground.
        self.shared_convs = nn.ModuleList()
        for _ in range(self.num_shared_convs):
            self.shared_convs.append(conv(kernel_size=3, padding=1))
        self.foreground_out = nn.Conv2d(width, self.num_classes, kernel_size=1)
        self.foreground_embedding = conv(kernel_size=1)

        # Pooling, a score and two offsets for each of the two corners.
        self.corner_pools = nn.ModuleList()
        for directions in CORNER_DIRECTIONS:
            pool = CornerFeatures(
                width=width,
                directions=directions,
                pooled=self.corner_channels,
                norm_cfg=self.norm_cfg,
            )
            self.corner_pools.append(pool)
        self.corner_score_outs = _corner_convs(width, out_channels=1)
        self.corner_offset_outs = _corner_convs(width, out_channels=2)

        # The refinement has the verified corners as additional input, unlike mmdet's layers.
        refinement = partial(
            DeformConv2d,
            in_channels=width + NUM_VERIFIED,
            out_channels=self.point_feat_channels,
            kernel_size=self.dcn_kernel,
            stride=1,
            padding=self.dcn_pad,
        )
        self.reppoints_cls_conv = refinement()
        self.reppoints_pts_refine_conv = refinement()

    def forward(self, feats: tuple[Tensor, ...]) -> tuple[list[Tensor], ...]:
        """Compute the outputs of each level: in training all inputs of the losses, otherwise class
        scores and boxes.

        As in the code of RepPoints V2, boxes are refined by corners of a finer level: boxes of
        levels 2 and 3 by corners of level 1, boxes of levels 4 and 5 by corners of level 2, and so
        on. Boxes of level 1 are not refined.
        """
        outputs = super().forward(feats)
        if self.training:
            return outputs
        scores, _, refined, corners, offsets, _ = outputs
        boxes = [corner_boxes(points) for points in refined]
        for level in range(1, len(boxes)):
            finer = (level - 1) // 2
            boxes[level] = refine_corners(
                boxes[level],
                corner_logits_B2HW=corners[finer],
                offsets_B4HW=offsets[finer],
                scale=self.point_strides[level] / self.point_strides[finer],
            )
        return scores, boxes

    def forward_single(self, x: Tensor) -> tuple[Tensor, ...]:
        """Compute class logits, initial and refined points, corner logits and offsets and
        foreground logits.
        """
        # The two branches of RepPoints, one for classes and one for points.
        cls_feat = x
        pts_feat = x
        for conv in self.cls_convs:
            cls_feat = conv(cls_feat)
        for conv in self.reg_convs:
            pts_feat = conv(pts_feat)

        # The verification tasks, from the features of the points.
        verified = pts_feat
        for conv in self.shared_convs:
            verified = conv(verified)
        foreground = self.foreground_out(verified)
        embedding = self.foreground_embedding(verified)
        corners, offsets = self._predict_corners(verified + embedding)

        # Both branches are supported by the foreground, and their refinement by the corners.
        cls_feat = cls_feat + embedding
        pts_feat = pts_feat + embedding
        points = self.reppoints_pts_init_out(self.relu(self.reppoints_pts_init_conv(pts_feat)))
        cls_feat = torch.cat((cls_feat, corners, offsets), dim=1)
        pts_feat = torch.cat((pts_feat, corners, offsets), dim=1)
        scores, refined = self._refine(cls_feat, pts_feat, points)
        return scores, points, refined, corners, offsets, foreground

    def _predict_corners(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Predict logits `(B, 2, H, W)` and offsets `(B, 4, H, W)` of top-left and bottom-right
        corners.
        """
        pooled = [pool(x) for pool in self.corner_pools]
        logits = [out(features) for out, features in zip(self.corner_score_outs, pooled)]
        offsets = [out(features) for out, features in zip(self.corner_offset_outs, pooled)]
        return torch.cat(logits, dim=1), torch.cat(offsets, dim=1)

    def _refine(self, cls_feat: Tensor, pts_feat: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Predict class logits and refined points from the features at the points, as in
        RepPoints.
        """
        # The refinement trains the first points with a reduced gradient.
        slow = (1 - self.gradient_mul) * points.detach() + self.gradient_mul * points
        offset = slow - self.dcn_base_offset.type_as(points)
        scores = self.reppoints_cls_out(self.relu(self.reppoints_cls_conv(cls_feat, offset)))
        refined = self.reppoints_pts_refine_out(
            self.relu(self.reppoints_pts_refine_conv(pts_feat, offset))
        )
        return scores, refined + points.detach()

    def loss_by_feat(
        self,
        cls_scores: list[Tensor],
        pts_preds_init: list[Tensor],
        pts_preds_refine: list[Tensor],
        corners: list[Tensor],
        offsets: list[Tensor],
        foregrounds: list[Tensor],
        batch_gt_instances: list,
        batch_img_metas: list[dict],
        batch_gt_instances_ignore: list | None = None,
    ) -> dict[str, Tensor]:
        """Compute the losses of detection and verification. Maps are listed by level."""
        truths = batch_gt_instances
        ignored = batch_gt_instances_ignore or [None] * len(truths)
        centers, inside = self.get_points(
            [map_shape(scores) for scores in cls_scores], batch_img_metas, cls_scores[0].device
        )
        first = self._boxes(pts_preds_init, centers[0])
        refined = self._boxes(pts_preds_refine, centers[0])

        # The first points belong to the objects of their cell, the refined points to those that
        # their first boxes cover.
        num_levels = [len(level) for level in centers[0]]
        matches_first = []
        matches = []
        for image, boxes in enumerate(first.detach()):
            match = partial(
                _match, inside=inside[image], truth=truths[image], ignored=ignored[image]
            )
            matches_first.append(match(self.init_assigner, centers[image]))
            matches.append(match(self.refine_assigner, boxes.split(num_levels)))

        predicted_first, target_first, average_first = _matched(first, matches_first, truths)
        predicted, target, average = _matched(refined, matches, truths)
        return dict(
            loss_cls=self._class_loss(
                cls_scores,
                matches=matches,
                truths=truths,
                quality=bbox_overlaps(predicted.detach(), target, is_aligned=True),
                average=average,
            ),
            loss_pts_init=_box_loss(
                self.loss_bbox_init,
                predicted=predicted_first,
                target=target_first,
                average=average_first,
            ),
            loss_pts_refine=_box_loss(
                self.loss_bbox_refine, predicted=predicted, target=target, average=average
            ),
            loss_foreground=self._foreground_loss(foregrounds, truths),
            **self._corner_losses(corners, offsets, truths),
        )

    def _boxes(self, points: list[Tensor], centers: list[Tensor]) -> Tensor:
        """Return the boxes of points in pixels, `(B, N, 4)`, all levels concatenated."""
        boxes = []
        for level, stride, center in zip(points, self.point_strides, centers):
            relative = corner_boxes(level.float()).flatten(2).transpose(1, 2)
            boxes.append(relative * stride + center[:, [0, 1, 0, 1]])
        return torch.cat(boxes, dim=1)

    def _class_loss(
        self,
        cls_scores: list[Tensor],
        matches: list[Tensor],
        truths: list[InstanceData],
        quality: Tensor,
        average: int,
    ) -> Tensor:
        """Compute the loss of the classes.

        `quality` is the IoU of each box assigned to an object; other boxes have quality 0.
        """
        match = torch.cat(matches)
        is_object = match > 0
        qualities = quality.new_zeros(len(match))
        qualities[is_object] = quality
        labels = match.new_full((len(match),), self.num_classes)
        labels[is_object] = _of_matched('labels', matches, truths)

        by_level = [scores.flatten(2).transpose(1, 2) for scores in cls_scores]
        logits = torch.cat(by_level, dim=1).flatten(0, 1)
        # Ignored boxes, with match -1, have weight 0.
        weight = (match >= 0).float()
        return self.loss_cls(logits.float(), (labels, qualities), weight, avg_factor=average)

    def _corner_losses(
        self, corners: list[Tensor], offsets: list[Tensor], truths: list[InstanceData]
    ) -> dict[str, Tensor]:
        """Compute the losses of corner heatmaps and offsets, per cell closest to a corner."""
        heatmaps = []
        offset_targets = []
        masks = []
        offset_weights = []
        for truth in truths:
            for stride, logits in zip(self.point_strides, corners):
                heatmap, offset, is_corner = corner_targets(
                    truth.bboxes, size=map_shape(logits), stride=stride, min_iou=self.corner_iou
                )
                heatmaps.append(heatmap.flatten())
                offset_targets.append(offset.flatten())
                masks.append(is_corner.flatten())
                # A corner has two offsets, x and y.
                offset_weights.append(is_corner.repeat_interleave(2, dim=0).flatten())

        score = _by_image(corners, len(truths)).float().sigmoid().clamp(1e-4, 1 - 1e-4)
        number = torch.cat(masks).sum().clamp(min=1)
        target = torch.cat(offset_targets)
        return dict(
            loss_corner=self.loss_corner(score, torch.cat(heatmaps), avg_factor=number),
            loss_offset=self.loss_offset(
                _by_image(offsets, len(truths)),
                target,
                weight=torch.cat(offset_weights).to(target.dtype),
                avg_factor=number,
            ),
        )

    def _foreground_loss(self, foregrounds: list[Tensor], truths: list[InstanceData]) -> Tensor:
        weights = []
        for truth in truths:
            for stride, logits in zip(self.point_strides, foregrounds):
                weight = foreground_weights(
                    truth.bboxes,
                    labels_N=truth.labels,
                    size=map_shape(logits),
                    stride=stride,
                    num_classes=self.num_classes,
                )
                weights.append(weight.flatten())
        logits = _by_image(foregrounds, len(truths)).float()
        return self.foreground_weight * normalized_focal_loss(
            logits, torch.cat(weights), **self.foreground_focus
        )


def _default_init() -> dict:
    low_probability = [
        dict(type='Normal', name=name, std=0.01, bias_prob=0.01) for name in RARE_OUTPUTS
    ]
    return dict(type='Normal', layer=['Conv2d', 'DeformConv2d'], std=0.01, override=low_probability)


def _corner_convs(width: int, out_channels: int) -> nn.ModuleList:
    """Return a 3 x 3 convolution for each of the two corners."""
    return nn.ModuleList(
        nn.Conv2d(width, out_channels, kernel_size=3, padding=1) for _ in CORNER_DIRECTIONS
    )


class PointGenerator(MlvlPointGenerator):
    """mmdet's points, without PyTorch's warning: mmdet 3.5 calls `torch.meshgrid` without
    `indexing`.
    """

    def _meshgrid(self, x: Tensor, y: Tensor, row_major: bool = True) -> tuple[Tensor, Tensor]:
        rows, columns = torch.meshgrid(y, x, indexing='ij')
        rows = rows.reshape(-1)
        columns = columns.reshape(-1)
        return (columns, rows) if row_major else (rows, columns)


class CornerFeatures(BiCornerPool):
    """mmdet's corner pooling with a final 1 x 1 convolution, as in the code of RepPoints V2."""

    def __init__(
        self, width: int, directions: list[str], pooled: int, norm_cfg: dict | None
    ) -> None:
        super().__init__(
            in_channels=width,
            directions=directions,
            feat_channels=pooled,
            out_channels=width,
            norm_cfg=norm_cfg,
        )
        self.conv2 = ConvModule(width, width, kernel_size=1, norm_cfg=norm_cfg)


def _match(
    assigner,
    priors: Sequence[Tensor],
    inside: list[Tensor],
    truth: InstanceData,
    ignored: InstanceData | None,
) -> Tensor:
    """Assign the priors of an image to objects: object number from 1, 0 for background, -1 for
    ignored priors.
    """
    is_inside = torch.cat(inside)
    assigned = assigner.assign(
        InstanceData(priors=torch.cat(tuple(priors))[is_inside]),
        gt_instances=truth,
        gt_instances_ignore=ignored,
        num_level_priors=[int(level.sum()) for level in inside],
    )
    match = assigned.gt_inds.new_full((len(is_inside),), -1)
    match[is_inside] = assigned.gt_inds
    return match


def _matched(
    boxes_BN4: Tensor, matches: list[Tensor], truths: list[InstanceData]
) -> tuple[Tensor, Tensor, int]:
    """Return the predicted boxes assigned to objects, the boxes of these objects, and their number.

    The number, which normalises losses, counts at least one box per image.
    """
    predicted = boxes_BN4[torch.stack(matches) > 0]
    target = _of_matched('bboxes', matches, truths)
    number = sum(max(int((match > 0).sum()), 1) for match in matches)
    return predicted, target, number


def _of_matched(field: str, matches: list[Tensor], truths: list[InstanceData]) -> Tensor:
    """Return a field of the object of each assigned prior, images concatenated."""
    values = [truth[field][match[match > 0] - 1] for truth, match in zip(truths, matches)]
    return torch.cat(values)


def _box_loss(loss: nn.Module, predicted: Tensor, target: Tensor, average: int) -> Tensor:
    """Compute a box loss. Without boxes it is 0 with a gradient, which distributed training needs
    in all parameters.
    """
    if not len(predicted):
        return predicted.sum()
    return loss(predicted, target, avg_factor=average)


def _by_image(levels: list[Tensor], num_images: int) -> Tensor:
    """Flatten and concatenate maps, ordered by image, then by level."""
    parts = []
    for image in range(num_images):
        for level in levels:
            parts.append(level[image].flatten())
    return torch.cat(parts)
