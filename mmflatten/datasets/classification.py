"""Data sets of classification in the registry; mmpretrain, which other tasks do not need, is imported to build one."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmflatten.registry import DATASETS

if TYPE_CHECKING:
    from mmflatten.datasets.indexed_images import IndexedImageNet, IndexedImages


@DATASETS.register_module(name='IndexedImages')
def indexed_images(**kwargs: Any) -> IndexedImages:
    """Build an `IndexedImages`."""
    from mmflatten.datasets.indexed_images import IndexedImages
    return IndexedImages(**kwargs)


@DATASETS.register_module(name='IndexedImageNet')
def indexed_image_net(**kwargs: Any) -> IndexedImageNet:
    """Build an `IndexedImageNet`."""
    from mmflatten.datasets.indexed_images import IndexedImageNet
    return IndexedImageNet(**kwargs)
