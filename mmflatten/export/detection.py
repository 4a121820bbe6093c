"""Export of whole detectors, with non-maximum suppression in the graph."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmflatten.export.wrappers import ExportedModel, ExportError

_NMS_OPTIONS = {'type', 'iou_threshold', 'class_agnostic', 'split_thr'}


class Exported(ExportedModel):
    """Detections of RetinaNet, ATSS, Faster, Mask and Cascade R-CNN, best first, as mmdet predicts them.

    `boxes` `(n, 4)`, x1 y1 x2 y2 in pixels of the image; `scores` `(n,)`; `labels` `(n,)`, int64; with a mask head
    `masks` `(n, S, S)`, probabilities on the grid of each box (see `paste_masks`). `n` depends on the image and may be
    0. The numbers of the config's `test_cfg` become constants of the graph.

    Suppression and RoIAlign are torchvision's operators, which ONNX has. mmdet's own code between them tests sizes that
    depend on the data and cannot be traced, so it is written again here.

    Raises:
        ExportError: the detector, its box coder or its suppression is of another type.
    """

    task, outputs = 'detection', ('boxes', 'scores', 'labels')

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        roi_head = getattr(model, 'roi_head', None)
        self.head = getattr(model, 'rpn_head' if roi_head else 'bbox_head', None)
        _check(model, self.head, roi_head)
        self.two_stages, self.stages = bool(roi_head), range(getattr(roi_head, 'num_stages', 1))
        self.stride = max(max(stride) for stride in self.head.prior_generator.strides)
        if roi_head and roi_head.with_mask:
            self.outputs = (*self.outputs, 'masks')
            self.facts = dict(mask_threshold=roi_head.test_cfg.mask_thr_binary)

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        maps = self.model.extract_feat(self.prepare(image))
        boxes, scores, groups = self._anchors(maps, image)
        boxes, scores, labels = _suppress(boxes, scores, groups, self.head.test_cfg)
        if self.two_stages:
            boxes, scores, labels = self._refine(maps, boxes, scores, image)
        results = [boxes, scores, labels]
        if 'masks' in self.outputs:
            results.append(self._masks(maps, boxes, labels))
        real = _where(scores >= 0)
        return tuple(result[real] for result in results)

    @staticmethod
    def differences(outputs: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the error of each detection against the one in the same place; 1 if there is none.

        The error is the largest of box (relative to the largest coordinate), score and mask. The order of nearly equal
        scores does not matter.
        """
        most, fewer = sorted((outputs, expected), key=lambda part: -len(part['scores']))
        scale = max([1., *np.abs(expected['boxes']).flat])
        errors, left = np.ones(len(most['scores'])), list(range(len(most['scores'])))
        for number, label in enumerate(fewer['labels']):
            distance = np.abs(most['boxes'] - fewer['boxes'][number]).max(1) / scale
            distance = np.maximum(distance, np.abs(most['scores'] - fewer['scores'][number]))
            if 'masks' in most:
                distance = np.maximum(distance, np.abs(most['masks'] - fewer['masks'][number]).max((1, 2)))
            distance = np.where(most['labels'] == label, distance, 1)
            best = min(left, key=lambda place: distance[place])
            left.remove(best)
            errors[best] = distance[best]
        return errors

    def _anchors(self, maps: tuple[Tensor, ...], image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the best anchors of all maps, their scores, and the groups in which suppression compares them."""
        head, cfg, found = self.head, self.head.test_cfg, []
        outputs = head(maps)
        sizes = [level.shape[-2:] for level in outputs[0]]
        priors = head.prior_generator.grid_priors(sizes, dtype=image.dtype, device=image.device)
        for number, (prior, scores, deltas, *factor) in enumerate(zip(priors, *outputs)):
            scores = _rows(scores, head.cls_out_channels)
            scores = scores.sigmoid() if head.use_sigmoid_cls else scores.softmax(-1)[:, :-1]
            threshold = -1 if self.two_stages else cfg.get('score_thr', 0)
            best, rows, labels = _best(scores, threshold, cfg.get('nms_pre', -1))
            boxes = _decode(head.bbox_coder, prior[rows], _rows(deltas, 4)[rows], image)
            if factor:  # ATSS's centreness
                best = best * _rows(factor[0], 1)[rows, 0].sigmoid()
            large = _where(((boxes[:, 2:] - boxes[:, :2]) > cfg.get('min_bbox_size', -1)).all(1))
            groups = torch.full_like(labels, number) if self.two_stages else labels
            found.append((boxes[large], best[large], groups[large]))
        boxes, scores, groups = map(torch.cat, zip(*found))
        return boxes, scores, groups

    def _refine(self, maps: tuple[Tensor, ...], boxes: Tensor, objectness: Tensor, image: Tensor
                ) -> tuple[Tensor, Tensor, Tensor]:
        roi_head, logits = self.model.roi_head, []
        for stage in self.stages:
            head = _of(roi_head.bbox_head, stage)
            classes, deltas = head(self._regions(maps, _of(roi_head.bbox_roi_extractor, stage), boxes))
            logits.append(classes)
            deltas = deltas.unflatten(1, (-1, 4))
            if stage < self.stages[-1]:
                boxes = _decode(head.bbox_coder, boxes, _of_class(deltas, logits[-1][:, :-1].argmax(1)), image)
        cfg, scores = roi_head.test_cfg, torch.stack(logits).mean(0).softmax(-1)[:, :-1]
        best, rows, labels = _best(scores.where(objectness[:, None] >= 0, -1), cfg.score_thr, -1)
        boxes = _decode(head.bbox_coder, boxes[rows], _of_class(deltas[rows], labels), image)
        return _suppress(boxes, best, labels, cfg)

    def _masks(self, maps: tuple[Tensor, ...], boxes: Tensor, labels: Tensor) -> Tensor:
        roi_head, masks = self.model.roi_head, []
        for stage in self.stages:
            regions = self._regions(maps, _of(roi_head.mask_roi_extractor, stage), boxes)
            masks.append(_of(roi_head.mask_head, stage)(regions).sigmoid())
        return _of_class(torch.stack(masks).mean(0), labels)

    def _regions(self, maps: tuple[Tensor, ...], extractor: nn.Module, boxes: Tensor) -> Tensor:
        """Pool each region from the map of its size, as mmdet's `SingleRoIExtractor` does."""
        regions = torch.cat((torch.zeros_like(boxes[:, :1]), boxes), 1)
        levels = extractor.map_roi_levels(regions, extractor.num_inputs)
        pooled, places = [], []
        for number, layer in enumerate(extractor.roi_layers):
            places.append(_where(levels == number))
            pooled.append(torch.ops.torchvision.roi_align(
                maps[number], regions[places[-1]], layer.spatial_scale, *layer.output_size,
                layer.sampling_ratio, layer.aligned))
        pooled = torch.cat(pooled)
        empty = pooled.new_zeros(len(boxes), *pooled.shape[1:])
        return empty.index_put((torch.cat(places),), pooled)


def _check(model: nn.Module, head: Any, roi_head: Any) -> None:
    from mmdet.models.dense_heads import AnchorHead
    from mmdet.models.roi_heads import BaseRoIExtractor, CascadeRoIHead, SingleRoIExtractor, StandardRoIHead
    pooled = [part for part in model.modules() if isinstance(part, BaseRoIExtractor)]
    if not isinstance(head, AnchorHead) or hasattr(model, 'mask_head') or (roi_head and (
            type(roi_head) not in (StandardRoIHead, CascadeRoIHead) or roi_head.with_shared_head)) or not all(
            type(part) is SingleRoIExtractor and part.roi_layers[0].pool_mode == 'avg' for part in pooled):
        raise ExportError(f'model: expected RetinaNet, ATSS, Mask R-CNN or Cascade R-CNN of mmdet, got '
                          f'{type(model).__name__} with {type(roi_head or head).__name__}. --features exports backbone '
                          'and neck.')
    for coder in (part.bbox_coder for part in model.modules() if hasattr(part, 'bbox_coder')):
        if type(coder).__name__ != 'DeltaXYWHBBoxCoder' or coder.add_ctr_clamp or not coder.clip_border:
            raise ExportError(f'bbox_coder: expected DeltaXYWHBBoxCoder that clips to the image, got '
                              f'{type(coder).__name__}. --features exports backbone and neck.')
    for nms in (part.test_cfg.nms for part in (head, roi_head) if part):
        if nms.get('type', 'nms') != 'nms' or not nms.keys() <= _NMS_OPTIONS:
            raise ExportError(f'test_cfg.nms: expected type nms with iou_threshold, got {dict(nms)}.')


def _of(modules: nn.Module, stage: int) -> nn.Module:
    return modules[stage] if isinstance(modules, nn.ModuleList) else modules


def _rows(x_1CHW: Tensor, channels: int) -> Tensor:
    """Reshape `(1, A * channels, H, W)` to `(H * W * A, channels)`, in the order of the anchors."""
    return x_1CHW[0].permute(1, 2, 0).reshape(-1, channels)


def _where(mask: Tensor) -> Tensor:
    return mask.nonzero()[:, 0]


def _of_class(values: Tensor, labels: Tensor) -> Tensor:
    """Select `(N, ...)` from `(N, classes, ...)`, or from `(N, 1, ...)` of a class-agnostic head."""
    if values.shape[1] == 1:
        return values[:, 0]
    return values[torch.arange(labels.shape[0], device=labels.device), labels]


def _best(scores: Tensor, threshold: float, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `most` best of the scores `(N, classes)` above a threshold, their rows and their columns."""
    rows, columns = (scores > threshold).nonzero().unbind(1)
    values = scores[rows, columns]
    if most > 0:
        _, order = F.pad(values, (0, most), value=-1.).topk(most)  # top-k fails if there are fewer values
        order = order[_where(order < rows.shape[0])]
        values, rows, columns = values[order], rows[order], columns[order]
    return values, rows, columns


def _decode(coder: Any, boxes: Tensor, deltas: Tensor, image: Tensor) -> Tensor:
    """Apply offsets `(N, 4)` to boxes and clip them to the image: mmdet's `delta2bbox`."""
    deltas = deltas * deltas.new_tensor(coder.stds) + deltas.new_tensor(coder.means)
    sizes, limit = boxes[:, 2:] - boxes[:, :2], abs(torch.log(torch.tensor(16 / 1000))).item()
    centres = (boxes[:, :2] + boxes[:, 2:]) * .5 + sizes * deltas[:, :2]
    halves = sizes * deltas[:, 2:].clamp(-limit, limit).exp() * .5
    H, W = (torch.scalar_tensor(side, dtype=image.dtype) for side in image.shape[-2:])
    return torch.minimum(torch.cat((centres - halves, centres + halves), 1).clamp(min=0), torch.stack((W, H, W, H)))


def _suppress(boxes: Tensor, scores: Tensor, groups: Tensor, cfg: Mapping[str, Any]
              ) -> tuple[Tensor, Tensor, Tensor]:
    """Return `max_per_img` boxes, scores and groups after suppression within each group, best first.

    Missing ones have a score of -1. The number is fixed because PyTorch cannot trace heads on an unknown number.
    """
    shifted = boxes
    if not cfg['nms'].get('class_agnostic', False):  # moved apart, as in mmcv's `batched_nms`
        width = F.pad(boxes.flatten(), (0, 1)).max() + 1
        shifted = boxes + (groups.to(boxes.dtype) * width)[:, None]
    kept = torch.ops.torchvision.nms(shifted, scores, cfg['nms']['iou_threshold'])
    most = cfg['max_per_img']
    scores, order = F.pad(scores[kept], (0, most), value=-1.).topk(most)
    return F.pad(boxes[kept], (0, 0, 0, most))[order], scores, F.pad(groups[kept], (0, most))[order]


def paste_masks(masks: np.ndarray, boxes: np.ndarray, size: tuple[int, int], threshold: float = .5) -> np.ndarray:
    """Return the masks `(n, H, W)`, bool, of an image from the `masks` `(n, S, S)` of a detector's file, as mmdet does.

    Args:
        boxes: `(n, 4)` in pixels of the image. If it was resized for the file, scale them back first.
        size: (H, W) of the image.
        threshold: smallest probability of the foreground, `mask_threshold` of the metadata.
    """
    places = []
    for axis in (0, 1):  # x, y
        low, high = (torch.from_numpy(boxes[:, column, None]) for column in (axis, axis + 2))
        places.append((torch.arange(size[1 - axis]) + .5 - low) / (high - low).clamp(min=1e-6) * 2 - 1)
    pasted = np.zeros((len(boxes), *size), bool)
    for number, (mask, x, y) in enumerate(zip(torch.from_numpy(masks), *places)):
        grid = torch.stack(torch.broadcast_tensors(x, y[:, None]), -1)
        pasted[number] = F.grid_sample(mask[None, None], grid[None], align_corners=False)[0, 0] >= threshold
    return pasted
