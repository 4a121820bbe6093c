"""What stereo data sets share: a list of pairs whose files are known to be there."""
from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmengine.dataset import BaseDataset

from mmflatten.datasets.stereo.errors import StereoDataError
from mmflatten.locate import missing_data_hint


class StereoDataset(BaseDataset):
    """Pairs of images by the name of their files; a subclass says where they lie.

    An entry has the paths `img_path` (left image), `right_path` and, where there is a truth, `disparity_path` and
    either `occlusion_path` (a mask) or `noc_disparity_path` (the disparity of what both cameras see alone), and
    `sample_id`, a number in the order of the names.

    Args:
        data_root: folder of the data set.
        pipeline: transforms.
        kwargs: of `mmengine.dataset.BaseDataset`.
    """

    METAINFO = dict(dataset_type='stereo')

    def __init__(self, data_root: str, pipeline: list = (), **kwargs: Any) -> None:
        super().__init__(data_root=str(data_root), pipeline=list(pipeline), **kwargs)

    def pairs(self) -> Iterator[dict]:
        """Yield the paths of every pair, in the order of their names."""
        raise TypeError(f'{type(self).__name__} must say where its pairs lie')

    def place(self) -> str:
        """Where below `data_root` left images are looked for, for messages."""
        return 'see its pairs()'

    def load_data_list(self) -> list[dict]:
        """All pairs.

        Raises:
            FileNotFoundError: a folder is missing, with the way to get it.
            StereoDataError: an image has no partner or no disparity, or there is no pair at all.
        """
        entries = []
        for number, entry in enumerate(self.pairs()):
            for key, what in (('right_path', 'right image'), ('disparity_path', 'disparity'),
                              ('occlusion_path', 'occlusion mask'), ('noc_disparity_path', 'disparity')):
                if key in entry and not os.path.isfile(entry[key]):
                    raise StereoDataError(f'{what} {entry[key]} of left image {entry["img_path"]} does not exist; '
                                          'unpack the archive again or take the pair out of the data set')
            entries.append(dict(sample_id=number, **entry))
        if not entries:
            raise StereoDataError(f'data_root ({self.data_root}) holds no pair of images where '
                                  f'{type(self).__name__} looks for them: {self.place()}')
        return entries


def require_folder(folder: Path) -> Path:
    """The folder.

    Raises:
        FileNotFoundError: it does not exist; says how to get it where the configs know it.
    """
    if not folder.is_dir():
        hint = missing_data_hint(folder) or 'check data_root in the config'
        raise FileNotFoundError(f'data not found: {folder} does not exist; {hint}')
    return folder


def images_in(folder: Path, suffixes: tuple[str, ...] = ('.png', '.webp')) -> list[Path]:
    """Image files of a folder, sorted by name."""
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in suffixes)
