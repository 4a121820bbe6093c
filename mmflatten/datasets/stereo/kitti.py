"""KITTI stereo benchmarks of 2012 (Geiger et al., CVPR 2012) and 2015 (Menze and Geiger, CVPR 2015)."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmflatten.datasets.stereo.base import StereoDataset, images_in, require_folder
from mmflatten.registry import DATASETS


@dataclass(frozen=True)
class _Year:
    """Folders below `training` and `testing`."""

    left: str
    right: str
    disparity: str
    noc_disparity: str


YEARS = {
    2012: _Year('colored_0', 'colored_1', 'disp_occ', 'disp_noc'),
    2015: _Year('image_2', 'image_3', 'disp_occ_0', 'disp_noc_0'),
}
KITTI_SPLITS = ('train', 'val', 'trainval', 'test')


@DATASETS.register_module()
class KITTIStereoDataset(StereoDataset):
    """Stereo pairs of KITTI with sparse disparity from a laser scanner.

        <data_root>/{training,testing}/{image_2,image_3}/000000_10.png          2015; colored_0, colored_1 in 2012
        <data_root>/training/{disp_occ_0,disp_noc_0}/000000_10.png              2015; disp_occ, disp_noc in 2012

    Only the first frames (`*_10.png`) have ground truth: `disp_occ`. Pixels missing from `disp_noc` are occluded. There
    is no official validation split. As in PSMNet's code, 'train' is the first 160 pairs in the order of the names, and
    'val' the others, 40 in 2015 and 34 in 2012.

    Args:
        year: 2012 or 2015.
        split: 'train', 'val', 'trainval' (both) or 'test' (without ground truth).
        num_train: number of pairs in 'train'.
        kwargs: arguments of `StereoDataset`.
    """

    def __init__(self, year: int = 2015, split: str = 'train', num_train: int = 160, **kwargs: Any) -> None:
        if year not in YEARS:
            raise ValueError(f'year ({year!r}) must be one of {", ".join(map(str, YEARS))}')
        if split not in KITTI_SPLITS:
            raise ValueError(f'split ({split!r}) must be one of {", ".join(map(repr, KITTI_SPLITS))}')
        if not isinstance(num_train, int) or num_train < 1:
            raise ValueError(f"num_train ({num_train!r}) must be a positive integer, the number of pairs in 'train'")
        self.year, self.split, self.num_train = YEARS[year], split, num_train
        super().__init__(**kwargs)

    @property
    def left(self) -> Path:
        """Folder of the left images below `data_root`."""
        return Path('testing' if self.split == 'test' else 'training', self.year.left)

    def place(self) -> str:
        pattern = f'{self.left}/*_10.png'
        return f'{pattern} after the first {self.num_train} (num_train)' if self.split == 'val' else pattern

    def pairs(self) -> Iterator[dict]:
        left = require_folder(Path(self.data_root, self.left))
        root = left.parent
        names = [path.name for path in images_in(left, ('.png', )) if path.stem.endswith('_10')]
        part = {'train': slice(None, self.num_train), 'val': slice(self.num_train, None)}.get(self.split, slice(None))
        for name in names[part]:
            entry = dict(img_path=str(left / name), right_path=str(root / self.year.right / name))
            if self.split != 'test':
                entry.update(
                    disparity_path=str(root / self.year.disparity / name),
                    noc_disparity_path=str(root / self.year.noc_disparity / name))
            yield entry
