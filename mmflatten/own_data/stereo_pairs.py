"""Stereo: folders of left images, right images and disparities."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mmflatten.datasets.stereo import StereoDataError, read_disparity
from mmflatten.datasets.stereo.folder import disparity_of
from mmflatten.own_data.data import OwnData, OwnDataError, problems_of
from mmflatten.own_data.pictures import find_images, list_text, picture_problems, read_pictures, sizes_found, split

PARTS = ('left', 'right', 'disparity')
KINDS = {
    'left image without its right one': (True, 'put a file of the same name into right/'),
    'pair of two sizes': (True, 'both images of a pair must have the same pixels'),
    'pair without a disparity': (True, 'put NAME.pfm or a 16-bit NAME.png into disparity/'),
    'disparity that cannot be read': (True, 'replace it; .pfm, or .png of 16 bits in 256ths of a pixel'),
    'disparity of another size than its image': (True, 'it must have the pixels of the left image'),
    'negative disparity': (True, 'disparity is x(left) - x(right), which is positive; change its sign'),
    'disparity beyond max_disp': (False, 'the model cannot predict it; set model.max_disp and val_evaluator.max_disp'),
}


def read_stereo(images: Sequence[Path], out: Path, share: float, max_disp: int) -> OwnData:
    """Pairs in `train/{left,right,disparity}` and `val/...`, or two such folders, or one that is split.

    Args:
        max_disp: the largest disparity that the base model predicts, in pixels.
    """
    roots = _roots(images)
    lefts = [find_images(root / 'left') for root in roots]
    rights = {left: left.parent.parent / 'right' / left.name for part in lefts for left in part}
    pictures = read_pictures([*rights, *rights.values()])
    left_pictures = {path: pictures[path] for path in rights}
    places: dict[str, list[str]] = defaultdict(list)
    largest = 0.
    for left, right in rights.items():
        sizes = {picture.size for picture in (pictures[left], pictures.get(right)) if picture is not None}
        if right not in pictures:
            places['left image without its right one'].append(str(left))
        elif len(sizes - {None}) > 1:
            places['pair of two sizes'].append(str(left))
        largest = max(largest, _check_disparity(left, pictures[left].size, max_disp, places))
    sides = lefts if len(roots) == 2 else split(left_pictures, share)
    arguments, lists = [], {}
    for name, side, root in zip(('train', 'val'), sides, (roots[0], roots[-1])):
        listed = out.with_name(f'{out.stem}_{name}.txt')
        lists[listed] = list_text(path.stem for path in side)
        arguments.append(dict(ann_file=listed, data_prefix={part: root / part for part in PARTS}))
    facts = [f'image sizes: {sizes_found(left_pictures)}',
             f'largest disparity: {largest:.1f} pixels; the model predicts up to {max_disp}']
    problems = problems_of(places, KINDS) + picture_problems(pictures, *sides)
    return OwnData('mmflatten.StereoFolderDataset', *arguments, tuple(map(len, sides)), (), facts, problems, lists)


def _roots(images: Sequence[Path]) -> list[Path]:
    """The folders that hold left, right and disparity."""
    roots = [Path(folder).resolve() for folder in images]
    if len(roots) == 1 and (roots[0] / 'train').is_dir() and (roots[0] / 'val').is_dir():
        roots = [roots[0] / 'train', roots[0] / 'val']
    for root in roots:
        lacking = [name for name in PARTS if not (root / name).is_dir()]
        if lacking:
            raise OwnDataError(f'{root} has no {", ".join(lacking)}; --task stereo reads left/NAME.png, right/NAME.png '
                               'and disparity/NAME.pfm, below train and val or split by --val-share')
    return roots


def _check_disparity(left: Path, size: tuple[int, int] | None, max_disp: int, places: dict[str, list[str]]) -> float:
    """The largest disparity of a pair; what is wrong is noted in `places`."""
    path = disparity_of(left.parent.parent / 'disparity', left.stem)
    if not path.is_file():
        places['pair without a disparity'].append(str(left))
        return 0.
    try:
        disparity = read_disparity(path)
    except StereoDataError as error:
        places['disparity that cannot be read'].append(str(error))
        return 0.
    if size not in (None, disparity.shape[::-1]):
        places['disparity of another size than its image'].append(str(path))
    known = disparity[np.isfinite(disparity)]
    if np.count_nonzero(known < 0) > known.size / 2:
        places['negative disparity'].append(str(path))
    largest = float(known.max(initial=0.))
    if largest > max_disp:
        places['disparity beyond max_disp'].append(f'{largest:.1f} in {path}')
    return largest
