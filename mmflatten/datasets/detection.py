"""Data sets of detection in the registry; mmdet, which other tasks do not need, is imported when one is built."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmflatten.registry import DATASETS

if TYPE_CHECKING:
    from mmflatten.datasets.checked_coco import CheckedCocoDataset


@DATASETS.register_module(name='CheckedCocoDataset')
def checked_coco_dataset(**kwargs: Any) -> CheckedCocoDataset:
    """Build a `CheckedCocoDataset`."""
    from mmflatten.datasets.checked_coco import CheckedCocoDataset
    return CheckedCocoDataset(**kwargs)
