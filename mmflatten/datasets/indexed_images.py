"""Classification data listed in a mapped index: files, shards, objects."""
import os
from collections.abc import Sequence
from typing import Any

from mmengine.dataset import force_full_init
from mmpretrain.datasets import BaseDataset, ImageNet

from mmflatten.datasets.image_index import ImageIndex, ImageIndexError
from mmflatten.datasets.storage import member_path
from mmflatten.registry import DATASETS


@DATASETS.register_module()
class IndexedImages(BaseDataset):
    """Images and labels of an index: files or objects of their own, or members of tar, zip and LMDB shards.

    An image is found by its number, in shards too, so this is a map-style data set like any other: the ordinary
    samplers shuffle over all of it and split it between processes, two runs with a seed see the same order, and a
    resumed training goes on where it was. A stream through shards would need a buffer to shuffle in, shards to deal out
    and the state of both in checkpoints, and saves seeks, which matter on disks that turn.

    The paths it gives are read by `LoadImageFromFile` of an unchanged pipeline; for objects outside of shards
    `backend_args` of that step may name one of MMEngine's storage backends, or `fsspec`.

    Args:
        data_root: folder or address of the shards, or of the folder of images.
        split: 'train' or 'val'; gives `ann_file` and `data_prefix` where they are not given.
        data_prefix: where the names of the index begin below `data_root`, for images that are files.
        ann_file: the index, a folder on this machine. By default `{split}.index` in `data_root`; required where
            `data_root` is an address.
        indices: only the first so many images, where negative the last, or these.
        **kwargs: as in mmpretrain's `BaseDataset`.
    """

    def __init__(self, data_root: str = '', split: str = '', data_prefix: str = '', ann_file: str = '',
                 indices: int | Sequence[int] | None = None, **kwargs: Any) -> None:
        data_prefix = data_prefix or split
        super().__init__(ann_file=ann_file or f'{data_prefix}.index', data_root=data_root, data_prefix=data_prefix,
                         indices=indices, **kwargs)
        self.serialize_data = False  # MMEngine's list is here one of numbers

    def _join_prefix(self) -> None:
        # MMEngine would ask the storage how to join, and the one of HTTP does not know.
        prefix = self.data_prefix['img_path']
        if not os.path.isabs(prefix) and '://' not in prefix:
            self.data_prefix['img_path'] = '/'.join(part.rstrip('/') for part in (self.data_root, prefix) if part)
        if '://' not in self.data_root:
            self.ann_file = os.path.join(self.data_root, self.ann_file)

    def full_init(self) -> None:
        if self._fully_initialized:
            return
        self.index = ImageIndex(self.ann_file)
        classes = self._metainfo.get('classes')
        if classes and self.index.classes and len(classes) != len(self.index.classes):
            raise ImageIndexError(f'index {self.ann_file} has {len(self.index.classes)} classes and metainfo.classes '
                                  f'{len(classes)}; leave metainfo out, or name the classes of the index')
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
            place = '/'.join(part.rstrip('/') for part in (self.data_root, self.index.shards[shard]) if part)
            path = member_path(place, offset, size, name)
        else:
            path = f'{self.img_prefix}/{name}' if self.img_prefix else name
        return dict(img_path=path, gt_label=label, sample_idx=number)


@DATASETS.register_module()
class IndexedImageNet(IndexedImages):
    """`IndexedImages` of ImageNet-1k, with the class names of mmpretrain's `ImageNet`."""

    METAINFO = ImageNet.METAINFO
