"""Detection errors by kind with TIDE (Bolya et al., 2020), through `tidecv`: AP lost at an IoU of 0.5."""
from __future__ import annotations

import importlib.util

import numpy as np
from pycocotools import mask as coco_mask

from mmflatten.results.analysis import ResultTable
from mmflatten.results.coco import Instances

MIN_IOU, BACKGROUND_IOU = 0.5, 0.1  # TIDE's defaults
KINDS = {
    'Cls': 'wrong class', 'Loc': 'badly placed', 'Both': 'badly placed, wrong class', 'Dupe': 'duplicate',
    'Bkg': 'background', 'Miss': 'missed', 'FalsePos': 'all false positives', 'FalseNeg': 'all false negatives'}


def is_installed() -> bool:
    """Return True if the optional package `tidecv` is installed."""
    return importlib.util.find_spec('tidecv') is not None


def error_table(instances: Instances, kind: str) -> ResultTable:
    """Tabulate the AP lost to each kind of error, from 0 to 1. At least one detection is required.

    Args:
        kind: 'bbox' or 'segm'.
    """
    from tidecv.data import Data
    from tidecv.quantify import TIDE, TIDERun
    truth, predictions = Data('truth'), Data('predictions')
    for image_id in instances.coco.imgs:
        truth.add_image(image_id, str(image_id))
    for item in instances.coco.anns.values():
        if item['category_id'] in instances.categories:
            mask = instances.coco.annToRLE(item) if kind == 'segm' else None
            add = truth.add_ignore_region if item.get('iscrowd') else truth.add_ground_truth
            add(item['image_id'], item['category_id'], item['bbox'], mask)
    for item in instances.detections[kind]:
        mask = item.get('segmentation')
        box = item['bbox'] if mask is None else coco_mask.toBbox(mask).tolist()
        predictions.add_detection(item['image_id'], item['category_id'], item['score'], box, mask)
    # TIDERun instead of TIDE, whose constructor changes matplotlib's style.
    mode = TIDE.MASK if kind == 'segm' else TIDE.BOX
    run = TIDERun(truth, predictions, MIN_IOU, BACKGROUND_IOU, mode, truth.max_dets)
    gains, counts = run.fix_main_errors(), run.count_errors()
    rows = [(KINDS[error.short_name], gain / 100, counts.get(error, np.nan))
            for error, gain in {**gains, **run.fix_special_errors()}.items()]
    return ResultTable(f'{kind}: what each kind of error costs, AP at 0.5 (TIDE)', ('error', 'AP lost', 'number'), rows)
