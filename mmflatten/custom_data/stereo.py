"""Stereo data: folders of left images, right images and disparities."""

from collections import defaultdict
from pathlib import Path

import numpy as np
from mmengine.config import Config

from mmflatten.custom_data.images import (
    find_images,
    picture_problems,
    read_pictures,
    size_range,
    split,
    split_folders,
)
from mmflatten.custom_data.reading import CustomData, DataError, Request, listed, problems_of
from mmflatten.datasets.stereo import read_disparity
from mmflatten.datasets.stereo.files import read_image
from mmflatten.datasets.stereo.layouts import disparity_of

STEREO_FOLDERS = ('left', 'right', 'disparity')
ZEROS = 0.05  # of the pixels
COMPARED = 20  # pairs whose sides are compared
STEREO_PROBLEMS = {
    'left image without a right image': (True, 'put a file of the same name into right/'),
    'image sizes of a pair differ': (
        True,
        'both images of a pair must have the same width and height',
    ),
    'pair without a disparity': (True, 'put NAME.pfm or a 16-bit NAME.png into disparity/'),
    'unreadable disparity': (True, 'replace it by a .pfm, or a 16-bit .png in 1/256 pixels'),
    'disparity size differs from its image': (True, 'it must have the size of the left image'),
    'negative disparity': (
        True,
        'disparity is x(left) - x(right), which is positive; change its sign',
    ),
    'left and right swapped': (
        True,
        'the pair fits its disparity much better the other way round; rename the folders',
    ),
    'disparity of 0': (False, 'it is learned as 0; where it means unknown, write infinity'),
    'disparity beyond max_disp': (
        False,
        'the model cannot predict it; set model.max_disp and val_evaluator.max_disp',
    ),
}


def read(request: Request, base: Config) -> CustomData:
    """Read pairs in `train/{left,right,disparity}` and `val/...`, two such folders, or one folder
    that is split.
    """
    roots, max_disp = split_folders(request.images), base.model.max_disp
    for root in roots:
        missing = [name for name in STEREO_FOLDERS if not (root / name).is_dir()]
        if missing:
            raise DataError(
                f'--images {root}: {", ".join(missing)} missing. --task stereo reads left/NAME.png,'
                ' right/NAME.png and disparity/NAME.pfm.'
            )
    lefts = [find_images(root / 'left') for root in roots]
    rights = {left: left.parent.parent / 'right' / left.name for part in lefts for left in part}
    pictures = read_pictures([*rights, *rights.values()], request.pictures)
    left_pictures = {path: pictures[path] for path in rights}
    places: dict[str, list[str]] = defaultdict(list)
    largest = 0.0
    for number, (left, right) in enumerate(rights.items()):
        sizes = {pictures[path].size if path in pictures else None for path in (left, right)}
        if right not in pictures:
            places['left image without a right image'].append(str(left))
        elif len(sizes - {None}) > 1:
            places['image sizes of a pair differ'].append(str(left))
        disparity = _check_disparity(left, pictures[left].size, max_disp, places)
        if disparity is not None:
            largest = max(largest, float(disparity[np.isfinite(disparity)].max(initial=0)))
            if (
                number < COMPARED
                and sizes == {disparity.shape[::-1]}
                and _look_swapped(left, right, disparity)
            ):
                places['left and right swapped'].append(str(left))
    if 2 * len(places['left and right swapped']) <= min(len(rights), COMPARED):
        places.pop('left and right swapped')
    sides = lefts if len(roots) == 2 else split(left_pictures, request.val_share)
    facts = [
        f'image sizes: {size_range(left_pictures)}',
        f'largest disparity: {largest:.1f} pixels; the model predicts up to {max_disp}',
    ]
    arguments = [dict(data_prefix={part: root / part for part in STEREO_FOLDERS}) for root in roots]
    return CustomData(
        'mmflatten.StereoFolderDataset',
        **listed(request, [[path.stem for path in side] for side in sides], arguments),
        facts=facts,
        problems=problems_of(places, STEREO_PROBLEMS) + picture_problems(pictures, *sides),
    )


def _check_disparity(
    left: Path, size: tuple[int, int] | None, max_disp: int, places: dict[str, list[str]]
) -> np.ndarray | None:
    """Return the disparity of a pair, if it can be read, and add its problems to `places`."""
    path = disparity_of(left.parent.parent / 'disparity', left.stem)
    if not path.is_file():
        places['pair without a disparity'].append(str(left))
        return None
    try:
        disparity = read_disparity(path)
    except ValueError as error:
        places['unreadable disparity'].append(str(error))
        return None
    if size not in (None, disparity.shape[::-1]):
        places['disparity size differs from its image'].append(str(path))
    known = disparity[np.isfinite(disparity)]
    if np.count_nonzero(known < 0) > known.size / 2:
        places['negative disparity'].append(str(path))
    zeros = np.count_nonzero(known == 0) / max(disparity.size, 1)
    if zeros > ZEROS and size == disparity.shape[::-1] and path.suffix.lower() == '.pfm':
        places['disparity of 0'].append(f'{zeros:.0%} of {path}')
    if known.max(initial=0) > max_disp:
        places['disparity beyond max_disp'].append(f'{known.max():.1f} in {path}')
    return disparity


def _look_swapped(left: Path, right: Path, disparity: np.ndarray) -> bool:
    """Return True if the images differ half as much where the opposite direction matches, of either
    image's disparity.
    """
    first, second = (read_image(path)[..., 1].astype(float) for path in (left, right))
    rows, columns = np.nonzero((disparity >= 1) & (disparity < disparity.shape[1]))
    shift = np.rint(disparity[rows, columns]).astype(int)
    inside = (columns >= shift) & (columns + shift < disparity.shape[1])
    rows, columns, shift = rows[inside], columns[inside], shift[inside]
    usual, exchanged, backward = (
        np.abs(one[rows, columns] - other[rows, there]).sum()
        for one, other, there in (
            (first, second, columns - shift),
            (second, first, columns - shift),
            (first, second, columns + shift),
        )
    )
    return 2 * min(exchanged, backward) < usual
