"""Drawings of predicted and true instances side by side."""
from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
from mmdet.structures import DetDataSample
from mmdet.visualization import DetLocalVisualizer
from mmengine.structures import InstanceData
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO


def draw_predictions(predictions: Sequence[dict], ann_file: str, classes: Sequence[str], palette: Sequence[tuple],
                     out_dir: str | Path, *, score_thr: float = .3, side: int = 480) -> list[Path]:
    """Write one PNG for each prediction: true instances on the left, predicted boxes, masks and scores on the right.

    Args:
        predictions: entries of the file written by `mmflatten test --out NAME.pkl`.
        ann_file: COCO annotations of the tested images.
        classes: class names in the order of the labels.
        palette: RGB colours of the classes.
        out_dir: folder for the drawings `<image>.png`.
        score_thr: minimum score of instances.
        side: minimum length of the longer side in pixels; small images are enlarged to keep labels readable.

    Returns:
        The written files.
    """
    coco = read_annotations(ann_file)
    labels = {category: label for label, category in enumerate(coco.getCatIds(list(classes)))}
    visualizer = DetLocalVisualizer()
    visualizer.dataset_meta = dict(classes=tuple(classes), palette=list(palette))
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    files = []
    for prediction in predictions:
        image = cv2.imread(os.fsencode(prediction['img_path']))[..., ::-1]
        factor = max(1, side // max(image.shape[:2]))
        annotations = coco.imgToAnns[prediction['img_id']]
        sample = DetDataSample(gt_instances=_truth(annotations, labels, coco, image.shape[:2], factor),
                               pred_instances=_predicted(prediction['pred_instances'], image.shape[:2], factor))
        enlarged = cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC)
        files.append(out_dir / f'{Path(prediction["img_path"]).stem}.png')
        visualizer.add_datasample('prediction', enlarged, sample, pred_score_thr=score_thr, out_file=str(files[-1]))
    return files


def read_annotations(ann_file: str) -> COCO:
    """Load COCO annotations silently."""
    with contextlib.redirect_stdout(io.StringIO()):
        return COCO(ann_file)


def _enlarge(masks: Sequence[np.ndarray], hw_shape: tuple[int, int], factor: int) -> torch.Tensor:
    """Stack and enlarge the masks of an image to `(N, factor * H, factor * W)`; N may be 0."""
    stacked = np.array(masks, dtype=bool).reshape(-1, *hw_shape)
    return torch.from_numpy(stacked.repeat(factor, 1).repeat(factor, 2))


def _truth(annotations: Sequence[dict], labels: dict[int, int], coco: COCO, hw_shape: tuple[int, int],
           factor: int) -> InstanceData:
    boxes = np.array([annotation['bbox'] for annotation in annotations], dtype=np.float32).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    return InstanceData(
        bboxes=torch.from_numpy(boxes * factor),
        labels=torch.tensor([labels[annotation['category_id']] for annotation in annotations]),
        masks=_enlarge([coco.annToMask(annotation) for annotation in annotations], hw_shape, factor))


def _predicted(instances: dict, hw_shape: tuple[int, int], factor: int) -> InstanceData:
    return InstanceData(
        bboxes=instances['bboxes'] * factor,
        scores=instances['scores'],
        labels=instances['labels'],
        masks=_enlarge([coco_mask.decode(mask) for mask in instances['masks']], hw_shape, factor))
