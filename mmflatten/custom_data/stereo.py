"""Stereo data: folders of left images, right images and disparities."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from mmengine.config import Config

from mmflatten.custom_data.images import (
    Picture,
    find_images,
    picture_problems,
    read_pictures,
    size_range,
    split,
    split_folders,
)
from mmflatten.custom_data.reading import CustomData, DataError, Request, listed, problems_of
from mmflatten.datasets.bands import read_bands
from mmflatten.datasets.stereo import read_disparity
from mmflatten.datasets.stereo.files import read_image
from mmflatten.datasets.stereo.layouts import disparity_of

STEREO_FOLDERS = ('left', 'right', 'disparity')
ZEROS = 0.05  # of the pixels
COMPARED = 20  # pairs whose sides are compared
# name: (is an error, fix)
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
    roots = split_folders(request.images)
    for root in roots:
        _require_folders(root)
    lefts = [find_images(root / 'left') for root in roots]
    rights = {}
    for part in lefts:
        for left in part:
            rights[left] = left.parent.parent / 'right' / left.name
    pictures = read_pictures([*rights, *rights.values()], request.pictures, request.bands)

    places: dict[str, list[str]] = defaultdict(list)
    largest = _check_pairs(
        rights, pictures, base.model.max_disp, places=places, bands=request.bands
    )

    left_pictures = {path: pictures[path] for path in rights}
    sides = lefts if len(roots) == 2 else split(left_pictures, request.val_share)
    train, val = sides
    names = [path.stem for path in train], [path.stem for path in val]
    arguments = []
    for root in roots:
        arguments.append(dict(data_prefix={part: root / part for part in STEREO_FOLDERS}))
    return CustomData(
        'mmflatten.StereoFolderDataset',
        **listed(request, names, arguments),
        facts=[
            f'image sizes: {size_range(left_pictures)}',
            f'largest disparity: {largest:.1f} pixels; the model predicts up to'
            f' {base.model.max_disp}',
        ],
        problems=problems_of(places, STEREO_PROBLEMS) + picture_problems(pictures, train, val),
    )


def _require_folders(root: Path) -> None:
    missing = [name for name in STEREO_FOLDERS if not (root / name).is_dir()]
    if missing:
        raise DataError(
            f'--images {root}: {", ".join(missing)} missing. --task stereo reads left/NAME.png,'
            ' right/NAME.png and disparity/NAME.pfm.'
        )


def _check_pairs(
    rights: Mapping[Path, Path],
    pictures: Mapping[Path, Picture],
    max_disp: int,
    places: dict[str, list[str]],
    bands: bool,
) -> float:
    """Add the problems of all pairs to `places`, and return the largest disparity in pixels."""
    largest = 0.0
    swapped = []
    for number, (left, right) in enumerate(rights.items()):
        size = pictures[left].size
        right_size = pictures[right].size if right in pictures else None
        if right not in pictures:
            places['left image without a right image'].append(str(left))
        elif None not in (size, right_size) and size != right_size:
            places['image sizes of a pair differ'].append(str(left))
        disparity = _check_disparity(left, size, max_disp, places=places)
        if disparity is None:
            continue
        largest = max(largest, float(disparity[np.isfinite(disparity)].max(initial=0)))
        # The comparison requires three maps of one size.
        fits = size == right_size == disparity.shape[::-1]
        compared = number < COMPARED and fits
        if compared and _look_swapped(left, right, disparity=disparity, bands=bands):
            swapped.append(str(left))
    # A single pair may look swapped by chance.
    if 2 * len(swapped) > min(len(rights), COMPARED):
        places['left and right swapped'] = swapped
    return largest


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


def _look_swapped(left: Path, right: Path, disparity: np.ndarray, bands: bool) -> bool:
    """Return True if the images differ half as much where the opposite direction matches, of either
    image's disparity.
    """
    first, second = _grey(left, bands), _grey(right, bands)
    # Only pixels with a match inside the image in both directions are compared.
    rows, columns = np.nonzero((disparity >= 1) & (disparity < disparity.shape[1]))
    shift = np.rint(disparity[rows, columns]).astype(int)
    inside = (columns >= shift) & (columns + shift < disparity.shape[1])
    rows, columns, shift = rows[inside], columns[inside], shift[inside]

    def difference(one: np.ndarray, other: np.ndarray, there: np.ndarray) -> float:
        return np.abs(one[rows, columns] - other[rows, there]).sum()

    usual = difference(first, second, columns - shift)
    exchanged = difference(second, first, columns - shift)
    backward = difference(first, second, columns + shift)
    return 2 * min(exchanged, backward) < usual


def _grey(path: Path, bands: bool) -> np.ndarray:
    """Return the mean of all bands (H, W), or the green channel."""
    if bands:
        return read_bands(path).mean(axis=2, dtype=float)
    return read_image(path)[..., 1].astype(float)
