"""RepPoints V2: point regression supported by verification of corners and foreground."""

from __future__ import annotations

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

VERIFICATION = ('corner_score_outs', 'foreground_out')
NUM_VERIFIED = 6  # channels: a score and two offsets for each of two corners


class CornerFeatures(BiCornerPool):
    """mmdet's corner pooling with a final 1 x 1 convolution, as in the code of RepPoints V2."""

    def __init__(
        self, width: int, directions: list[str], pooled: int, norm_cfg: dict | None
    ) -> None:
        super().__init__(width, directions, pooled, width, norm_cfg=norm_cfg)
        self.conv2 = ConvModule(width, width, 1, norm_cfg=norm_cfg)


class PointGenerator(MlvlPointGenerator):
    """mmdet's points. mmdet 3.5 calls `torch.meshgrid` without `indexing`, of which PyTorch
    warns.
    """

    def _meshgrid(self, x: Tensor, y: Tensor, row_major: bool = True) -> tuple[Tensor, Tensor]:
        rows, columns = (grid.reshape(-1) for grid in torch.meshgrid(y, x, indexing='ij'))
        return (columns, rows) if row_major else (rows, columns)


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
        grid, center = kwargs.get('use_grid_points', False), kwargs.get('center_init', True)
        if grid or not center:
            raise ValueError(
                'use_grid_points, center_init: RepPointsV2Head predicts points around their centre'
                f' and requires False, True, got {grid}, {center}.'
            )
        self.num_shared_convs = num_shared_convs
        self.corner_channels = corner_channels
        low_probability = [
            dict(type='Normal', name=name, std=0.01, bias_prob=0.01)
            for name in ('reppoints_cls_out', *VERIFICATION)
        ]
        init_cfg = init_cfg or dict(
            type='Normal', layer=['Conv2d', 'DeformConv2d'], std=0.01, override=low_probability
        )
        super().__init__(
            num_classes,
            in_channels,
            loss_cls=loss_cls,
            loss_bbox_init=loss_bbox_init,
            loss_bbox_refine=loss_bbox_refine,
            transform_method='exact_minmax',
            init_cfg=init_cfg,
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
        width, norm = self.feat_channels, dict(conv_cfg=self.conv_cfg, norm_cfg=self.norm_cfg)
        self.shared_convs = nn.ModuleList(
            ConvModule(width, width, 3, padding=1, **norm) for _ in range(self.num_shared_convs)
        )
        self.foreground_out = nn.Conv2d(width, self.num_classes, 1)
        self.foreground_embedding = ConvModule(width, width, 1, **norm)
        self.corner_pools = nn.ModuleList(
            CornerFeatures(width, directions, self.corner_channels, self.norm_cfg)
            for directions in (['top', 'left'], ['bottom', 'right'])
        )
        self.corner_score_outs = nn.ModuleList(nn.Conv2d(width, 1, 3, padding=1) for _ in range(2))
        self.corner_offset_outs = nn.ModuleList(nn.Conv2d(width, 2, 3, padding=1) for _ in range(2))
        self.reppoints_cls_conv, self.reppoints_pts_refine_conv = (
            DeformConv2d(
                width + NUM_VERIFIED, self.point_feat_channels, self.dcn_kernel, 1, self.dcn_pad
            )
            for _ in range(2)
        )

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
            scale = self.point_strides[level] / self.point_strides[finer]
            boxes[level] = refine_corners(boxes[level], corners[finer], offsets[finer], scale)
        return scores, boxes

    def forward_single(self, x: Tensor) -> tuple[Tensor, ...]:
        """Compute class logits, initial and refined points, corner logits and offsets and
        foreground logits.
        """
        cls_feat = pts_feat = x
        for conv in self.cls_convs:
            cls_feat = conv(cls_feat)
        for conv in self.reg_convs:
            pts_feat = conv(pts_feat)
        verified = pts_feat
        for conv in self.shared_convs:
            verified = conv(verified)
        foreground = self.foreground_out(verified)
        embedding = self.foreground_embedding(verified)
        corners, offsets = self._predict_corners(verified + embedding)

        pts_feat = pts_feat + embedding
        points = self.reppoints_pts_init_out(self.relu(self.reppoints_pts_init_conv(pts_feat)))
        cls_feat, pts_feat = (
            torch.cat((feat, corners, offsets), dim=1) for feat in (cls_feat + embedding, pts_feat)
        )
        scores, refined = self._refine(cls_feat, pts_feat, points)
        return scores, points, refined, corners, offsets, foreground

    def _predict_corners(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Predict logits `(B, 2, H, W)` and offsets `(B, 4, H, W)` of top-left and bottom-right
        corners.
        """
        pooled = [pool(x) for pool in self.corner_pools]
        logits, offsets = (
            torch.cat([out(features) for out, features in zip(outs, pooled)], dim=1)
            for outs in (self.corner_score_outs, self.corner_offset_outs)
        )
        return logits, offsets

    def _refine(self, cls_feat: Tensor, pts_feat: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        """Predict class logits and refined points from the features at the points, as in
        RepPoints.
        """
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
        first, refined = (
            self._boxes(points, centers[0]) for points in (pts_preds_init, pts_preds_refine)
        )
        matches_first = [
            _match(self.init_assigner, list(priors), *rest)
            for priors, *rest in zip(centers, inside, truths, ignored)
        ]
        num_levels = [len(level) for level in centers[0]]
        matches = [
            _match(self.refine_assigner, priors.split(num_levels), *rest)
            for priors, *rest in zip(first.detach(), inside, truths, ignored)
        ]

        predicted, target, average = _matched(first, matches_first, truths)
        loss_first = _box_loss(self.loss_bbox_init, predicted, target, average)
        predicted, target, average = _matched(refined, matches, truths)
        match = torch.cat(matches)
        quality, labels = (
            refined.new_zeros(len(match)),
            match.new_full((len(match),), self.num_classes),
        )
        quality[match > 0] = bbox_overlaps(predicted.detach(), target, is_aligned=True)
        labels[match > 0] = torch.cat(
            [truth.labels[one[one > 0] - 1] for truth, one in zip(truths, matches)]
        )
        logits = torch.cat(
            [scores.flatten(2).transpose(1, 2) for scores in cls_scores], dim=1
        ).flatten(0, 1)
        return dict(
            loss_cls=self.loss_cls(
                logits.float(), (labels, quality), (match >= 0).float(), avg_factor=average
            ),
            loss_pts_init=loss_first,
            loss_pts_refine=_box_loss(self.loss_bbox_refine, predicted, target, average),
            loss_foreground=self._foreground_loss(foregrounds, truths),
            **self._corner_losses(corners, offsets, truths),
        )

    def _boxes(self, points: list[Tensor], centers: list[Tensor]) -> Tensor:
        """Return the boxes of points in pixels, `(B, N, 4)`, all levels concatenated."""
        return torch.cat(
            [
                corner_boxes(level.float()).flatten(2).transpose(1, 2) * stride
                + center[:, [0, 1, 0, 1]]
                for level, stride, center in zip(points, self.point_strides, centers)
            ],
            dim=1,
        )

    def _corner_losses(
        self, corners: list[Tensor], offsets: list[Tensor], truths: list
    ) -> dict[str, Tensor]:
        levels = list(zip(self.point_strides, corners))
        targets = [
            corner_targets(truth.bboxes, map_shape(logits), stride, self.corner_iou)
            for truth in truths
            for stride, logits in levels
        ]
        heatmap, offset, is_corner = (
            torch.cat([part.flatten() for part in parts]) for parts in zip(*targets)
        )
        weight = torch.cat([mask.repeat_interleave(2, dim=0).flatten() for *_, mask in targets]).to(
            offset.dtype
        )
        score = _by_image(corners, len(truths)).float().sigmoid().clamp(1e-4, 1 - 1e-4)
        number = is_corner.sum().clamp(min=1)
        return dict(
            loss_corner=self.loss_corner(score, heatmap, avg_factor=number),
            loss_offset=self.loss_offset(
                _by_image(offsets, len(truths)), offset, weight, avg_factor=number
            ),
        )

    def _foreground_loss(self, foregrounds: list[Tensor], truths: list) -> Tensor:
        by_level = [
            foreground_weights(
                truth.bboxes, truth.labels, map_shape(logits), stride, self.num_classes
            )
            for truth in truths
            for stride, logits in zip(self.point_strides, foregrounds)
        ]
        weights = torch.cat([part.flatten() for part in by_level])
        logits = _by_image(foregrounds, len(truths)).float()
        return self.foreground_weight * normalized_focal_loss(
            logits, weights, **self.foreground_focus
        )


def _match(
    assigner,
    priors: list[Tensor],
    inside: list[Tensor],
    truth: InstanceData,
    ignored: InstanceData | None,
) -> Tensor:
    """Assign the priors of an image to objects: object number from 1, 0 for background, -1 for
    ignored priors.
    """
    is_inside = torch.cat(inside)
    assigned = assigner.assign(
        InstanceData(priors=torch.cat(list(priors))[is_inside]),
        gt_instances=truth,
        gt_instances_ignore=ignored,
        num_level_priors=[int(level.sum()) for level in inside],
    )
    match = assigned.gt_inds.new_full((len(is_inside),), -1)
    match[is_inside] = assigned.gt_inds
    return match


def _matched(boxes_BN4: Tensor, matches: list[Tensor], truths: list) -> tuple[Tensor, Tensor, int]:
    """Return the predicted boxes assigned to objects, the boxes of these objects, and their number.

    The number, which normalises losses, counts at least one box per image.
    """
    target = [truth.bboxes[match[match > 0] - 1] for truth, match in zip(truths, matches)]
    return (
        boxes_BN4[torch.stack(matches) > 0],
        torch.cat(target),
        sum(max(len(image), 1) for image in target),
    )


def _box_loss(loss: nn.Module, predicted: Tensor, target: Tensor, average: int) -> Tensor:
    """Compute a box loss. Without boxes it is 0 with a gradient, which distributed training needs
    in all parameters.
    """
    return loss(predicted, target, avg_factor=average) if len(predicted) else predicted.sum()


def _by_image(levels: list[Tensor], num_images: int) -> Tensor:
    """Flatten and concatenate maps, ordered by image, then by level."""
    return torch.cat([level[image].flatten() for image in range(num_images) for level in levels])
