"""Labels of detection in other formats than COCO, and their content as COCO."""

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from typing import NamedTuple
from xml.parsers.expat import ExpatError

import cv2
import numpy as np

from mmflatten.custom_data.coco import CocoFile, are_numbers
from mmflatten.custom_data.images import Picture, find_images, missing, names_and_stems, plain_name
from mmflatten.untrusted.files import UnusableFile, images_in

LABEL_PROBLEMS = {  # name: (is an error, fix)
    'unreadable label file': (True, 'replace or remove it'),
    'label that cannot be read': (
        True,
        'an object needs a class and four numbers of a box, or at least three points',
    ),
    'label without an image': (True, 'add the image, or remove the label'),
    'label file of two images': (True, 'rename one of the images'),
    'class id without a name': (
        True,
        'add the name to names, or correct the id; YOLO counts classes from 0',
    ),
    'coordinates look like pixels': (
        True,
        'YOLO has fractions: divide x by the width and y by the height',
    ),
    'two lists of class names differ': (
        True,
        'ids count these names: correct their order, or delete classes.txt',
    ),
    'image in neither list': (
        False,
        'it is left out; ImageSets/Main/train.txt and val.txt divide the images',
    ),
    'keypoints': (True, 'they are not read; export boxes or polygons'),
    'shape without an area': (False, 'it is left out; polygons, rectangles and circles are read'),
}


class Labelled(NamedTuple):
    """An object: class, box [x, y, width, height] and flat polygons [x1, y1, ...] in pixels, and
    its `file:line`.
    """

    name: str
    box: list[float]
    polygons: list[list[float]]
    place: str
    crowd: bool = False

    def to_coco(self) -> dict:
        """Return the fields of a COCO annotation without its ids."""
        area = self.box[2] * self.box[3]
        if self.polygons:
            points = [np.reshape(part, (-1, 2)).astype(np.float32) for part in self.polygons]
            area = sum(map(cv2.contourArea, points))
        return dict(
            bbox=self.box,
            area=area,
            iscrowd=int(self.crowd),
            segmentation=self.polygons,
        )


@dataclass
class Labels:
    """Labels of one part of the data.

    Attributes:
        source: file or folder of the labels.
        images: objects of each image; an empty list for background.
        sizes: (width, height) and place of each image whose labels state them.
        faults: places of each problem, as in `LABEL_PROBLEMS`.
        names: classes in the order of their ids, empty if the labels hold names.
    """

    source: Path
    images: dict[Path, list[Labelled]] = field(default_factory=dict)
    sizes: dict[Path, tuple[int, int, str]] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    names: list[str] = field(default_factory=list)

    def to_coco(self, names: Sequence[str], pictures: Mapping[Path, Picture]) -> CocoFile:
        """Return the content as a COCO file, with the place of each annotation (by id) and image
        (by path).
        """
        folder = Path(os.path.commonpath([path.parent for path in self.images]))
        ids = {name: number for number, name in enumerate(names, 1)}
        # A repeated name stays, because it is reported as a problem.
        categories = [dict(id=number, name=name) for number, name in enumerate(names, 1)]
        images: list[dict] = []
        annotations: list[dict] = []
        places: dict[int | Path, str] = {}
        for path, objects in self.images.items():
            width, height, places[path] = self._size_of(path, pictures)
            image = dict(
                id=len(images) + 1,
                file_name=path.relative_to(folder).as_posix(),
                width=width,
                height=height,
            )
            images.append(image)
            for item in objects:
                key = len(annotations) + 1
                places[key] = item.place
                fields = dict(id=key, image_id=image['id'], category_id=ids[item.name])
                annotations.append(fields | item.to_coco())
        return CocoFile(
            path=self.source,
            folder=folder,
            content=dict(images=images, annotations=annotations, categories=categories),
            places=places,
            faults=self.faults,
            converted=True,
        )

    def _size_of(self, path: Path, pictures: Mapping[Path, Picture]) -> tuple[int, int, str]:
        """Return the width and height that the labels state, or those of the file, and their
        place.
        """
        if path in self.sizes:
            return self.sizes[path]
        width, height = pictures[path].size or (0, 0)
        return width, height, str(path)


def read_files(
    ann: Sequence[Path], images: Sequence[Path], suffix: str, parse: Callable[..., tuple]
) -> list[Labels]:
    """Read folders with a label file for each image, which has the name in the file or that of the
    file.

    Args:
        parse: returns the name of the image, its size (width, height, place) or None, and its
            objects; receives the file and the faults of single objects. It raises ValueError for an
            unreadable file.
    """
    parts = []
    for folder, root in zip(ann, images):
        labels = Labels(folder.resolve())
        names, stems = names_and_stems(root, find_images(root))
        for file in images_in(labels.source, (suffix,), deep=True):
            try:
                name, size, objects = parse(file, labels.faults)
            except (ValueError, RecursionError, ExpatError) as error:
                message = _describe(error, file)
                labels.faults['unreadable label file'].append(message.rstrip('.'))
                continue
            # The name in the file may be a path of another computer; only its last part is used.
            place, name = file.relative_to(labels.source), PureWindowsPath(name).name
            stem = plain_name(os.path.splitext(place)[0], root)
            image = names.get(plain_name((place.parent / name).as_posix(), root)) or names.get(stem)
            if image is None:
                problem = 'label file of two images' if stem in stems else 'label without an image'
                labels.faults[problem].append(f'{file} ({missing(name, name)})')
                continue
            labels.images[image] = objects
            if size and are_numbers([*size[:2]]) and all(size):
                labels.sizes[image] = size
        parts.append(labels)
    return parts


def _describe(error: Exception, file: Path) -> str:
    """Return the message of an error, with the file and line if it lacks them."""
    if isinstance(error, UnusableFile):
        return str(error)
    return f'{file}:{getattr(error, "lineno", 1)}: {error}'
