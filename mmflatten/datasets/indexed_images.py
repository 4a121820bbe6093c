"""Classification data sets listed in a memory-mapped index (needs mmpretrain)."""

import os
from collections.abc import Sequence
from typing import Any

from mmengine.dataset import force_full_init
from mmpretrain.datasets import BaseDataset, ImageNet

from mmflatten.datasets.image_index import ImageIndex, ImageIndexError, is_below
from mmflatten.datasets.storage import member_path
from mmflatten.registry import DATASETS


@DATASETS.register_module()
class IndexedImages(BaseDataset):
    """Images and labels of an index: files, or members of tar shards.

    This is a map-style data set, also for shards: the usual samplers shuffle all of it, the order
    depends on the seed alone, and resuming is exact. `LoadImageFromFile` reads the paths without
    changes to the pipeline.

    Args:
        data_root: folder of the shards, or of the folder of images.
        split: 'train' or 'val'; default of `ann_file` and `data_prefix`.
        data_prefix: folder below `data_root` that the names in the index are relative to, for
            images that are files.
        ann_file: folder of the index, by default `{split}.index` in `data_root`.
        indices: number of images from the beginning, or from the end if negative, or a list of
            indices.
        **kwargs: arguments of mmpretrain's `BaseDataset`.
    """

    def __init__(
        self,
        data_root: str = '',
        split: str = '',
        data_prefix: str = '',
        ann_file: str = '',
        indices: int | Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        data_prefix = data_prefix or split
        if '://' in data_root:
            raise ValueError(
                f'data_root: expected a folder, got {data_root}. Mount the bucket, or copy the'
                ' shards.'
            )
        super().__init__(
            ann_file=ann_file or f'{data_prefix}.index',
            data_root=data_root,
            data_prefix=data_prefix,
            indices=indices,
            **kwargs,
        )
        self.serialize_data = False  # `data_list` holds only numbers

    def full_init(self) -> None:
        if self._fully_initialized:
            return
        self.index = ImageIndex(self.ann_file)
        classes = self._metainfo.get('classes')
        if classes and self.index.classes and len(classes) != len(self.index.classes):
            raise ImageIndexError(
                f'metainfo.classes: expected the {len(self.index.classes)} classes of the index '
                f'{self.ann_file}, got {len(classes)}. Remove metainfo to use those of the index.'
            )
        if not classes and self.index.classes:
            self._metainfo['classes'] = self.index.classes
        self.data_list = range(len(self.index))
        if self._indices is not None:
            self.data_list = self._get_unserialized_subset(self._indices)
        self._fully_initialized = True

    @force_full_init
    def get_data_info(self, idx: int) -> dict[str, Any]:
        number = range(len(self))[idx]
        name, label, shard, offset, size = self.index[self.data_list[number]]
        if self.index.shards:
            shard_file = os.path.join(self.data_root, self.index.shards[shard])
            path = member_path(shard_file, offset=offset, size=size, name=name)
        elif is_below(name):
            path = os.path.join(self.img_prefix, name)
        else:
            raise ImageIndexError(
                f'index {self.ann_file}: expected names below a folder, got {name!r:.100}.'
            )
        return dict(img_path=path, gt_label=label, sample_idx=number)


@DATASETS.register_module()
class IndexedImageNet(IndexedImages):
    """`IndexedImages` for ImageNet-1k, with the class names of mmpretrain's `ImageNet`."""

    METAINFO = ImageNet.METAINFO
