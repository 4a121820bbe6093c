"""Classification data sets listed in a memory-mapped index (needs mmpretrain)."""
import os
from collections.abc import Sequence
from typing import Any

from mmengine.dataset import force_full_init
from mmengine.fileio import get_file_backend
from mmpretrain.datasets import BaseDataset, ImageNet

from mmflatten.datasets.image_index import ImageIndex, ImageIndexError, is_below
from mmflatten.datasets.storage import FsspecBackend, member_path
from mmflatten.registry import DATASETS


@DATASETS.register_module()
class IndexedImages(BaseDataset):
    """Images and labels of an index: files, objects in storage, or members of tar shards.

    This is a map-style data set, also for shards: the usual samplers shuffle all of it, a seed gives the same order,
    and resuming is exact. `LoadImageFromFile` reads the paths without changes to the pipeline. For objects outside of
    shards, its `backend_args` may name one of MMEngine's storage backends or `fsspec`.

    Args:
        data_root: folder or address of the shards, or of the folder of images.
        split: 'train' or 'val'; default of `ann_file` and `data_prefix`.
        data_prefix: folder below `data_root` that the names in the index are relative to, for images that are files.
        ann_file: local folder of the index, by default `{split}.index` in `data_root`. Required if `data_root` is an
            address.
        indices: number of images from the beginning, or from the end if negative, or a list of indices.
        **kwargs: arguments of mmpretrain's `BaseDataset`.
    """

    def __init__(self, data_root: str = '', split: str = '', data_prefix: str = '', ann_file: str = '',
                 indices: int | Sequence[int] | None = None, **kwargs: Any) -> None:
        data_prefix = data_prefix or split
        super().__init__(ann_file=ann_file or f'{data_prefix}.index', data_root=data_root, data_prefix=data_prefix,
                         indices=indices, **kwargs)
        self.serialize_data = False  # `data_list` holds only numbers

    def _join_prefix(self) -> None:
        # MMEngine's version calls `join_path` of the storage backend, which HTTPBackend lacks (mmengine 0.10.12).
        self.data_prefix['img_path'] = _join(self.data_root, self.data_prefix['img_path'])
        if '://' not in self.data_root:
            self.ann_file = os.path.join(self.data_root, self.ann_file)

    def full_init(self) -> None:
        if self._fully_initialized:
            return
        self.index = ImageIndex(self.ann_file)
        classes = self._metainfo.get('classes')
        if classes and self.index.classes and len(classes) != len(self.index.classes):
            raise ImageIndexError(f'metainfo.classes: expected the {len(self.index.classes)} classes of the index '
                                  f'{self.ann_file}, got {len(classes)}. Remove metainfo to use those of the index.')
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
            path = member_path(_join(self.data_root, self.index.shards[shard]), offset, size, name)
        elif is_below(name):
            path = _join(self.img_prefix, name)
        else:
            raise ImageIndexError(f'index {self.ann_file}: expected names below a folder, got {name!r:.100}.')
        return dict(img_path=path, gt_label=label, sample_idx=number)

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return the samples of a batch. PyTorch's loader calls this; from object storage, the images are read at once.

        The pipeline then runs on one image after the other, as without this method.
        """
        loading = next((step for step in self.pipeline.transforms if hasattr(step, 'backend_args')), None)
        if loading is not None and '://' in str(self.data_root):
            paths = [self.get_data_info(index)['img_path'] for index in indices]
            backend = get_file_backend(paths[0], backend_args=loading.backend_args, enable_singleton=True)
            if isinstance(backend, FsspecBackend):
                backend.prefetch(paths)
        return [self[index] for index in indices]


@DATASETS.register_module()
class IndexedImageNet(IndexedImages):
    """`IndexedImages` for ImageNet-1k, with the class names of mmpretrain's `ImageNet`."""

    METAINFO = ImageNet.METAINFO


def _join(root: str, path: str) -> str:
    """Join a folder or address with a path, which stays as it is if it is absolute or an address."""
    if os.path.isabs(path) or '://' in path:
        return path
    return '/'.join(part.rstrip('/') for part in (root, path) if part)
