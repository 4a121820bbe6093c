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
from mmflatten.custom_data.images import Picture, find_images, names_and_stems, plain_name
from mmflatten.files import UnusableFile, images_in

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
        content: dict[str, list[dict]] = dict(
            images=[],
            annotations=[],
            categories=[dict(id=number, name=name) for number, name in enumerate(names, 1)],
        )
        places: dict[int | Path, str] = {}
        for number, (path, objects) in enumerate(self.images.items(), 1):
            width, height, place = self.sizes.get(path) or (
                *(pictures[path].size or (0, 0)),
                str(path),
            )
            places[path] = place
            content['images'].append(
                dict(
                    id=number,
                    file_name=path.relative_to(folder).as_posix(),
                    width=width,
                    height=height,
                )
            )
            for item in objects:
                key = len(content['annotations']) + 1
                places[key] = item.place
                areas = [
                    cv2.contourArea(np.reshape(part, (-1, 2)).astype(np.float32))
                    for part in item.polygons
                ]
                content['annotations'].append(
                    dict(
                        id=key,
                        image_id=number,
                        category_id=ids[item.name],
                        bbox=item.box,
                        area=sum(areas) if areas else item.box[2] * item.box[3],
                        iscrowd=int(item.crowd),
                        segmentation=item.polygons,
                    )
                )
        return CocoFile(self.source, folder, content, places, self.faults, converted=True)


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
                place = (
                    ''
                    if isinstance(error, UnusableFile)
                    else f'{file}:{getattr(error, "lineno", 1)}: '
                )
                labels.faults['unreadable label file'].append(f'{place}{error}'.rstrip('.'))
                continue
            place, name = file.relative_to(labels.source), PureWindowsPath(name).name
            stem = plain_name(os.path.splitext(place)[0], root)
            image = names.get(plain_name((place.parent / name).as_posix(), root)) or names.get(stem)
            if image is None:
                problem = 'label file of two images' if stem in stems else 'label without an image'
                labels.faults[problem].append(f'{file} ({name})')
                continue
            labels.images[image] = objects
            if size and are_numbers([*size[:2]]) and all(size):
                labels.sizes[image] = size
        parts.append(labels)
    return parts
