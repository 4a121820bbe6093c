"""Base class of stereo data sets."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmengine.dataset import BaseDataset

from mmflatten.data_folders import missing_data_hint
from mmflatten.datasets.stereo.files import StereoDataError

REQUIRED = dict(
    right_path='right image',
    disparity_path='disparity',
    occlusion_path='occlusion mask',
    noc_disparity_path='disparity',
)


class StereoDataset(BaseDataset):
    """Data set of image pairs. Subclasses implement `pairs`.

    An entry has `img_path` (left image), `right_path` and `sample_id`; with ground truth also
    `disparity_path` and either `occlusion_path` (a mask) or `noc_disparity_path` (disparity of
    points that both cameras see).

    Args:
        data_root: folder of the data set.
        pipeline: transforms.
        kwargs: arguments of `mmengine.dataset.BaseDataset`.
    """

    METAINFO = dict(dataset_type='stereo')

    def __init__(self, data_root: str, pipeline: list = (), **kwargs: Any) -> None:
        super().__init__(data_root=str(data_root), pipeline=list(pipeline), **kwargs)

    def pairs(self) -> Iterator[dict]:
        """Yield the paths of each pair, in the order of their names."""
        raise NotImplementedError

    def place(self) -> str:
        """Return the pattern of left images below `data_root`, for messages."""
        return 'see its pairs()'

    def load_data_list(self) -> list[dict]:
        """List all pairs. Raises StereoDataError if a right image, a disparity or all pairs are
        missing.
        """
        entries = [dict(sample_id=number, **entry) for number, entry in enumerate(self.pairs())]
        for entry in entries:
            for key, what in REQUIRED.items():
                if key in entry and not os.path.isfile(entry[key]):
                    raise StereoDataError(
                        f'{what} {entry[key]} of left image {entry["img_path"]} does not exist. '
                        'Unpack the archive again, or remove the pair from the data set.'
                    )
        if not entries:
            raise StereoDataError(
                f'data_root ({self.data_root}): {type(self).__name__} found no image pairs at '
                f'{self.place()}'
            )
        return entries


def require_folder(folder: Path) -> Path:
    """Return the folder. Raises FileNotFoundError if it does not exist, with a hint how to obtain
    known data sets.
    """
    if not folder.is_dir():
        hint = missing_data_hint(folder) or 'Check data_root in the config.'
        raise FileNotFoundError(f'data not found: {folder} does not exist. {hint}')
    return folder
