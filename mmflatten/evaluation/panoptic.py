"""Panoptic quality (Kirillov et al., Panoptic Segmentation, CVPR 2019), counted by hotcoco.

hotcoco follows the rules of COCO's `panopticapi`: a pair of segments of one class matches if its
IoU is above 0.5, where the union leaves out void pixels of the ground truth; a crowd segment
neither matches nor is missed; an unmatched prediction is ignored if more than half of it is void
or crowd of its class, of which the last crowd segment of the annotation counts. The PQ of
torchmetrics 1.9 knows no crowd, and also leaves out void pixels of the prediction.
"""

from __future__ import annotations

import os.path as osp
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from hotcoco.panoptic import PanopticEval
from mmengine.evaluator import BaseMetric
from mmengine.fileio import load
from mmengine.logging import print_log
from pycocotools import mask as coco_mask

from mmflatten.registry import METRICS
from mmflatten.structures.segments import (
    SegmentError,
    category_ids,
    check_segments,
    predicted_segments,
    read_segment_ids,
)
from mmflatten.text import align

COUNTS = ('iou', 'tp', 'fp', 'fn')


class Segment(NamedTuple):
    """A segment of an image: its label, its pixels (H, W) bool, and whether it is a crowd."""

    label: int
    mask: np.ndarray
    crowd: bool = False


@METRICS.register_module()
class PanopticMetric(BaseMetric):
    """PQ, SQ and RQ in percent, under the names of mmdet's `CocoPanopticMetric`.

    `PQ` is the mean over all classes that are annotated or predicted, `PQ_th` over things and
    `PQ_st` over stuff; NaN if there is none.

    Args:
        ann_file: COCO panoptic JSON.
        seg_prefix: folder of its PNG files.
        classwise: log the values of each class, too.
        backend_args: of MMEngine's `fileio`.
        kwargs: arguments of `mmengine.evaluator.BaseMetric`.
    """

    default_prefix = 'coco_panoptic'

    def __init__(
        self,
        ann_file: str,
        seg_prefix: str,
        classwise: bool = False,
        backend_args: dict | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.classwise = classwise
        self.truth = PanopticTruth(ann_file, seg_prefix, backend_args)

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Count the matches of each image.

        Raises:
            SegmentError: an image has no ground truth, or its files contradict each other.
        """
        classes = self.dataset_meta['classes']
        for sample in data_samples:
            panoptic = sample['pred_panoptic_seg']['sem_seg']
            self.results.append(
                self.truth.counts(sample['img_id'], panoptic[0].cpu().numpy(), classes)
            )

    def compute_metrics(self, results: list[np.ndarray]) -> dict[str, float]:
        """Compute the metrics from the counts (classes, 4) of each image."""
        classes = self.dataset_meta['classes']
        counts = np.sum(results, axis=0)
        if self.classwise:
            rows = [
                [name, *(f'{100 * value:.2f}' for value in values)]
                for name, values in zip(classes, panoptic_quality(counts).tolist())
            ]
            print_log('\n' + align(rows, ('class', 'PQ', 'SQ', 'RQ'), {0}), logger='current')
        return mean_quality(counts, self.truth.is_thing(classes))


class PanopticTruth:
    """Ground truth of a data set.

    Args:
        ann_file: COCO panoptic JSON.
        seg_prefix: folder of its PNG files.
        backend_args: of MMEngine's `fileio`.
    """

    def __init__(self, ann_file: str, seg_prefix: str, backend_args: dict | None = None) -> None:
        self.ann_file = ann_file
        self.seg_prefix = seg_prefix
        self.backend_args = backend_args
        content = load(ann_file, backend_args=backend_args)
        self.categories = content['categories']
        self.annotations = {
            annotation['image_id']: annotation for annotation in content.get('annotations', ())
        }

    def counts(self, image: int, panoptic: np.ndarray, classes: Sequence[str]) -> np.ndarray:
        """Compare a predicted map with the segments of an image; see `count_matches`.

        Args:
            panoptic: (H, W) integers as mmdet predicts them, with labels of `classes`.
        """
        ids, segments = self.segments(image, panoptic.shape)
        order = category_ids(self.categories, classes, self.ann_file)
        label_of = {category: label for label, category in enumerate(order)}
        true = []
        for segment in segments:
            true.append(
                Segment(
                    label=label_of[segment['category_id']],
                    mask=ids == segment['id'],
                    crowd=bool(segment.get('iscrowd', 0)),
                )
            )
        predicted = []
        for value, label in predicted_segments(panoptic, len(classes)).items():
            predicted.append(Segment(label=label, mask=panoptic == value))
        return count_matches(true, predicted, len(classes))

    def segments(
        self, image: int, hw_shape: Sequence[int]
    ) -> tuple[np.ndarray, list[Mapping[str, Any]]]:
        """Return the segment of each pixel (H, W) of an image, and its `segments_info`."""
        annotation = self.annotations.get(image)
        if annotation is None:
            raise SegmentError(
                f'annotations: image {image} has none in {self.ann_file}. Test on a split with'
                ' ground truth, or only predict with test_evaluator=[].'
            )
        file = osp.join(self.seg_prefix, annotation['file_name'])
        ids = read_segment_ids(file, hw_shape, backend_args=self.backend_args)
        check_segments(ids, annotation['segments_info'], file)
        return ids, annotation['segments_info']

    def is_thing(self, classes: Sequence[str]) -> np.ndarray:
        """Return True for each class of things, (classes,)."""
        things = {category['name'] for category in self.categories if category['isthing']}
        return np.array([name in things for name in classes])


def count_matches(
    true: Sequence[Segment], predicted: Sequence[Segment], num_classes: int
) -> np.ndarray:
    """Count the matches of one image.

    Returns:
        (classes, 4) float64: sum of the IoU of the matches, true positives, false positives and
        false negatives. The sum over images gives the counts of a data set.
    """
    segments = [*true, *predicted]
    if not segments:
        return np.zeros((num_classes, len(COUNTS)))
    height, width = segments[0].mask.shape
    image = dict(id=1, height=height, width=width, file_name='')
    categories = [dict(id=label, name=str(label), isthing=1) for label in range(num_classes)]
    # With run lengths in the annotations, hotcoco needs no PNG files.
    evaluation = PanopticEval(
        dict(images=[image], categories=categories, annotations=_annotations(true)),
        dict(images=[image], categories=categories, annotations=_annotations(predicted)),
    )
    evaluation.evaluate()
    by_class = evaluation.results()['per_class']
    counts = np.zeros((num_classes, len(COUNTS)))
    for label, values in by_class.items():
        counts[int(label)] = [values[name] for name in COUNTS]
    return counts


def panoptic_quality(counts: np.ndarray) -> np.ndarray:
    """Compute PQ = SQ x RQ of each class (eqs. 1 and 2 of the paper).

    Args:
        counts: (classes, 4) of `count_matches`.

    Returns:
        PQ, SQ and RQ, (classes, 3) in [0, 1]; NaN for a class that is neither annotated nor
        predicted, and an SQ of 0 without a match, as in `panopticapi`.
    """
    iou, matched, wrong, missed = counts.T
    with np.errstate(invalid='ignore'):
        recognition = matched / (matched + wrong / 2 + missed / 2)
    segmentation = iou / np.maximum(matched, 1)
    segmentation = np.where(np.isnan(recognition), np.nan, segmentation)
    return np.stack([segmentation * recognition, segmentation, recognition], axis=1)


def mean_quality(counts: np.ndarray, is_thing: np.ndarray) -> dict[str, float]:
    """Average PQ, SQ and RQ in percent over all classes, things and stuff; NaN if there are none.

    Args:
        counts: (classes, 4) of `count_matches`.
        is_thing: (classes,) bool.
    """
    values = panoptic_quality(counts)
    known = ~np.isnan(values[:, 0])
    metrics = {}
    for suffix, chosen in (('', known), ('_th', known & is_thing), ('_st', known & ~is_thing)):
        means = values[chosen].mean(0) if chosen.any() else np.full(3, np.nan)
        for name, mean in zip(('PQ', 'SQ', 'RQ'), means.tolist()):
            metrics[name + suffix] = 100 * mean
    return metrics


def _annotations(segments: Sequence[Segment]) -> list[dict[str, Any]]:
    """Return COCO annotations of an image, with run lengths."""
    annotations = []
    for number, segment in enumerate(segments, 1):
        runs = coco_mask.encode(np.asfortranarray(segment.mask, dtype=np.uint8))
        annotations.append(
            dict(
                id=number,
                image_id=1,
                category_id=segment.label,
                iscrowd=int(segment.crowd),
                area=int(segment.mask.sum()),
                bbox=coco_mask.toBbox(runs).tolist(),
                segmentation=dict(size=runs['size'], counts=runs['counts'].decode('ascii')),
            )
        )
    return annotations
