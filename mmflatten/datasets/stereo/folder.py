"""Stereo pairs in three folders whose files share names."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mmflatten.datasets.stereo.base import StereoDataset, images_in, require_folder
from mmflatten.locate import IMAGE_SUFFIXES
from mmflatten.registry import DATASETS

DISPARITIES = ('.pfm', '.png')
DEFAULT_FOLDERS = dict(left='left', right='right', disparity='disparity')


@DATASETS.register_module()
class StereoFolderDataset(StereoDataset):
    """Stereo pairs in folders.

        <left>/NAME.png           or .jpg, .webp, ...
        <right>/NAME.png          the same name
        <disparity>/NAME.pfm      pixels of the left image; or a 16-bit NAME.png in 1/256 pixels, like KITTI

    Args:
        ann_file: text file with one NAME per line; '' for all images in `left`.
        data_prefix: folders `left`, `right` and, with ground truth, `disparity`, below `data_root`.
        kwargs: arguments of `StereoDataset`.
    """

    def __init__(self, ann_file: str = '', data_prefix: Mapping[str, str] = DEFAULT_FOLDERS, **kwargs: Any) -> None:
        super().__init__(ann_file=ann_file, data_prefix=dict(data_prefix), **kwargs)

    def place(self) -> str:
        pattern = f'{self.data_prefix["left"]}/NAME.png'
        return f'{pattern}, with NAME in {self.ann_file}' if self.ann_file else pattern

    def pairs(self) -> Iterator[dict]:
        left, right = require_folder(Path(self.data_prefix['left'])), Path(self.data_prefix['right'])
        images = {path.stem: path for path in images_in(left, IMAGE_SUFFIXES)}
        names = Path(self.ann_file).read_text(encoding='utf-8').split('\n') if self.ann_file else sorted(images)
        for name in filter(None, names):
            image = images.get(name, left / f'{name}.png')
            entry = dict(img_path=str(image), right_path=str(right / image.name))
            if 'disparity' in self.data_prefix:
                entry['disparity_path'] = str(disparity_of(Path(self.data_prefix['disparity']), name))
            yield entry


def disparity_of(folder: Path, name: str) -> Path:
    """Return the disparity file of a pair: the first that exists, else the PFM."""
    files = [folder / f'{name}{suffix}' for suffix in DISPARITIES]
    return next(filter(Path.is_file, files), files[0])
