"""Labels of detection in any format that `mmflatten init` reads: which one it is, and its content as COCO."""
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from typing import NamedTuple

import numpy as np

from mmflatten.own_data.coco import CocoFile, read_coco
from mmflatten.own_data.data import OwnDataError, Request
from mmflatten.own_data.pictures import Picture, find_images, read_pictures

UNREADABLE, MALFORMED, NO_IMAGE = 'unreadable label file', 'label that cannot be read', 'label without an image'
OTHER_SHAPE, SHARED, UNKNOWN_ID = 'shape without an area', 'label file of two images', 'class id without a name'
PIXELS, FROM_ONE, OTHER_ORDER = ('coordinates look like pixels', 'class ids look 1-based',
                                 'two lists of class names differ')
LABEL_PROBLEMS = {  # name: (is an error, fix)
    UNREADABLE: (True, 'replace or remove it'),
    MALFORMED: (True, 'an object needs a class and four numbers of a box, or at least three points'),
    NO_IMAGE: (True, 'add the image, or remove the label'),
    SHARED: (True, 'rename one of the images'),
    UNKNOWN_ID: (True, 'add the name to names, or correct the id; ids start at 0'),
    FROM_ONE: (True, 'YOLO counts classes from 0: subtract 1 from every id, or list the names that the ids mean'),
    PIXELS: (True, 'YOLO has fractions: divide x by the width and y by the height of the image'),
    OTHER_ORDER: (True, 'ids count these names, so both must have the same order: correct one or delete classes.txt'),
    OTHER_SHAPE: (False, 'it is left out; polygons, rectangles and circles are read'),
}


class Labelled(NamedTuple):
    """An object: class, box [x, y, width, height] and flat polygons [x1, y1, ...] in pixels, and its `file:line`."""

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
        names: classes in the order of their ids, None if the labels hold names.
    """

    source: Path
    images: dict[Path, list[Labelled]] = field(default_factory=dict)
    sizes: dict[Path, tuple[int, int, str]] = field(default_factory=dict)
    faults: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    names: list[str] | None = None

    def to_coco(self, names: Sequence[str], pictures: Mapping[Path, Picture]) -> CocoFile:
        """Return the content as a COCO file, with the place of each annotation (by id) and image (by path)."""
        folder = Path(os.path.commonpath([path.parent for path in self.images]))
        ids = {name: number for number, name in enumerate(names, 1)}
        content: dict[str, list[dict]] = dict(images=[], annotations=[], categories=[
            dict(id=number, name=name) for number, name in enumerate(names, 1)])
        places: dict[int | Path, str] = {}
        for number, (path, objects) in enumerate(self.images.items(), 1):
            width, height, place = self.sizes.get(path) or (*(pictures[path].size or (0, 0)), str(path))
            places[path] = place
            content['images'].append(dict(id=number, file_name=path.relative_to(folder).as_posix(), width=width,
                                          height=height))
            for item in objects:
                key = len(content['annotations']) + 1
                places[key] = item.place
                area = sum(map(polygon_area, item.polygons)) if item.polygons else item.box[2] * item.box[3]
                content['annotations'].append(dict(id=key, image_id=number, category_id=ids[item.name], bbox=item.box,
                                                   area=area, iscrowd=int(item.crowd), segmentation=item.polygons))
        return CocoFile(self.source, folder, content, places, self.faults, converted=True)


def read_labels(request: Request) -> list[CocoFile]:
    """Read one or two parts of detection data in COCO's, YOLO's, Pascal VOC's or labelme's format.

    Raises OwnDataError if there are no labels. Problems of single labels are in `faults` of the result.
    """
    ann = list(request.ann or ())
    folders = [*request.images, *request.images[-1:]]
    reader, ann[0] = _reader(ann[0])
    if reader is None:
        return [read_coco(file, folder) for file, folder in zip(ann, folders)]
    parts = reader(ann, [folder.resolve() for folder in folders], request)
    if not any(part.images for part in parts):
        faults = [f'{name}: {places[0]}' for part in parts for name, places in part.faults.items()]
        raise OwnDataError(f'--ann {ann[0]}: no labels of the images in {folders[0]}, got '
                           f'{faults[0] if faults else "no label file of an image"}.')
    parts = [part for part in parts if part.images]
    pictures = read_pictures((path for part in parts for path in part.images), request.pictures)
    used = {item.name for part in parts for objects in part.images.values() for item in objects}
    names = parts[0].names or [*(request.classes or ()), *sorted(used - {*(request.classes or ())})]
    return [part.to_coco(names, pictures) for part in parts]


def _reader(path: Path):
    """Return the reader of a file or folder, None for COCO, and the file that it starts from."""
    from mmflatten.own_data import labelme, voc, yolo
    if path.is_file():
        return (yolo.read if path.suffix.lower() in yolo.SUFFIXES else None), path
    for suffix, reader in ((yolo.SUFFIXES[0], yolo.read), ('.xml', voc.read), ('.json', labelme.read),
                           ('.txt', yolo.read)):
        files = label_files(path, suffix)
        if files:
            return reader, (files[0] if suffix == yolo.SUFFIXES[0] else path)
    return None, path


def label_files(folder: Path, suffix: str) -> list[Path]:
    """List the files below a folder with a suffix, sorted, without hidden ones."""
    return sorted(path.resolve() for path in folder.rglob(f'*{suffix}')
                  if not any(part.startswith('.') for part in path.relative_to(folder).parts))


class ImageFinder:
    """Images below a folder by the name in a label file, or by the name of the label file."""

    def __init__(self, images: Path, labels: Path) -> None:
        self.labels = labels.resolve()
        self.files = {path.relative_to(images).as_posix(): path for path in find_images(images)}
        self.stems = {str(Path(name).with_suffix('')): path for name, path in self.files.items()}
        self.names = {path.name: path for path in self.files.values()}

    def __call__(self, label: Path, name: str | None) -> Path | None:
        place, file = label.relative_to(self.labels), PureWindowsPath(name or '').name
        return (self.files.get((place.parent / file).as_posix()) or self.stems.get(str(place.with_suffix('')))
                or self.names.get(file))


def box_of(polygons: Sequence[Sequence[float]]) -> list[float]:
    """Return the [x, y, width, height] around flat polygons."""
    points = np.concatenate([np.reshape(polygon, (-1, 2)) for polygon in polygons])
    (x1, y1), (x2, y2) = points.min(0).tolist(), points.max(0).tolist()
    return [x1, y1, x2 - x1, y2 - y1]


def polygon_area(polygon: Sequence[float]) -> float:
    """Return the area of a flat polygon by the shoelace formula, in square pixels."""
    x, y = np.reshape(polygon, (-1, 2)).T
    return float(abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2)
