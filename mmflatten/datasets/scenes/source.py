"""Sources of scenes: pictures of objects, and photographs of scikit-learn and scikit-image as
backgrounds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np

from mmflatten.datasets.scenes.canvas import Sprite


@dataclass(frozen=True)
class Objects:
    """Pictures of the objects of one split.

    Attributes:
        images: (n, h, w).
        labels: (n,), 0 to 9.
        numbers: (n,), unique numbers over both splits.
        render: samples opacity and shade, (h, w) and (h, w, 3) in [0, 1], of an image for a scene
            of a size in pixels.
        reference: side of scenes in pixels. A scene of several times this side has objects as
            large, about as many per area, and a photograph as large, mirrored at its borders. None
            scales all of it with the side.
    """

    images: np.ndarray
    labels: np.ndarray
    numbers: np.ndarray
    render: Callable[[np.random.Generator, np.ndarray, int], tuple[np.ndarray, np.ndarray]]
    reference: int | None = None

    def sample(self, rng: np.random.Generator, size: int) -> Sprite:
        """Sample an object, each class equally likely, without position and colour for a scene of
        `size` pixels.
        """
        label = rng.integers(int(self.labels.max()) + 1)
        position = int(rng.choice(np.flatnonzero(self.labels == label)))
        opacity, shade = self.render(rng, self.images[position], size)
        return Sprite(
            opacity=opacity,
            colour=shade,
            label=int(self.labels[position]),
            number=int(self.numbers[position]),
        )


@dataclass(frozen=True)
class Photographs:
    """Photographs of one split: `regions` are (H, W, 3) uint8 RGB, cut from `first_column` on."""

    names: tuple[str, ...]
    regions: tuple[np.ndarray, ...]
    first_column: int

    def crop(
        self, rng: np.random.Generator, height: int, width: int
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Sample a crop, (height, width, 3) uint8, randomly mirrored, and its `photograph` and
        `box` (x, y, w, h).

        An output pixel covers 0.8 to 1.6 photograph pixels, fewer if the region is too small.
        """
        which = int(rng.integers(len(self.regions)))
        region = self.regions[which]
        scale = min(rng.uniform(0.8, 1.6), region.shape[0] / height, region.shape[1] / width)
        cut_height, cut_width = max(1, int(height * scale)), max(1, int(width * scale))
        top = int(rng.integers(region.shape[0] - cut_height + 1))
        left = int(rng.integers(region.shape[1] - cut_width + 1))
        cut = region[top : top + cut_height, left : left + cut_width]
        interpolation = cv2.INTER_AREA if scale > 1 else cv2.INTER_LINEAR
        cut = cv2.resize(cut, (width, height), interpolation=interpolation)
        if rng.random() < 0.5:
            cut = cut[:, ::-1]
        box = [self.first_column + left, top, cut_width, cut_height]
        return np.ascontiguousarray(cut), dict(photograph=self.names[which], box=box)


@dataclass(frozen=True)
class Source:
    """Objects and photographs, with disjoint training and validation splits.

    Attributes:
        name: singular of the objects.
        number: key of the object numbers in the files.
        folders: class folders of the ImageNet layout, in the order of the classes.
        info: description in the COCO files.
        licenses: licences in the COCO files.
        license_ids: licence by photograph, if not the first.
    """

    name: str
    number: str
    classes: tuple[str, ...]
    folders: tuple[str, ...]
    info: str
    licenses: tuple[dict[str, Any], ...]
    load_objects: Callable[[str], Objects]
    load_photographs: Callable[[str], Photographs]
    license_ids: dict[str, int]


def load_photographs(
    names: Sequence[str], columns: tuple[int, int | None] = (0, None)
) -> Photographs:
    """Load photographs of scikit-learn or scikit-image by file name, with all rows and a range of
    columns.
    """
    regions = []
    for name in names:
        if name in ('china.jpg', 'flower.jpg'):
            photograph = sklearn_datasets().load_sample_image(name)
        else:
            photograph = cv2.cvtColor(cv2.imread(str(skimage_file(name))), cv2.COLOR_BGR2RGB)
        regions.append(photograph[:, slice(*columns)])
    return Photographs(tuple(names), tuple(regions), columns[0])


def skimage_file(name: str) -> Path:
    """Locate a file of scikit-image's wheel in `skimage/data` without importing or downloading
    anything.
    """
    spec = find_spec('skimage')
    if spec is None:
        raise ImportError(f'{name}: scikit-image is not installed. Run `pip install scikit-image`.')
    return Path(spec.submodule_search_locations[0], 'data', name)


def sklearn_datasets() -> ModuleType:
    """Import `sklearn.datasets`, which only building scenes needs."""
    try:
        return import_module('sklearn.datasets')
    except ImportError as error:
        raise ImportError(
            'handwriting and photographs: scikit-learn is not installed. Run `pip install '
            'scikit-learn`.'
        ) from error
