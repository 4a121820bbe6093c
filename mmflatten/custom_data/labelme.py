"""Labels of labelme: a JSON file per image."""

import math
import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmflatten.custom_data.coco import are_numbers
from mmflatten.custom_data.labels import Labelled, Labels, read_files
from mmflatten.custom_data.reading import Request
from mmflatten.datasets.masks import box_of_mask
from mmflatten.untrusted.files import read_text
from mmflatten.untrusted.json_files import parse_json

RESERVED = ('__ignore__', '_background_')  # labels of regions without a class
AS_CORNERS = {'mask': 'rectangle', 'rotation': 'polygon'}  # of its box, or of a rotated one


def read(ann: list[Path], images: list[Path], request: Request) -> list[Labels]:
    """Read folders of JSON files. Polygons of one label and `group_id` are one object."""
    return read_files(ann, images, suffix='.json', parse=_parse)


@dataclass
class _Shape:
    """A shape, or the polygons of a group.

    Attributes:
        name: class, as in the file.
        kind: 'polygon', 'rectangle' or 'circle'.
        place: of the first shape, for a message.
        polygons: [x1, y1, x2, y2, ...] of each polygon, or of two corners of the box.
    """

    name: str
    kind: str
    place: str
    polygons: list[list[float]]

    def to_labelled(self) -> Labelled:
        return Labelled(
            name=self.name.strip(),
            box=box_of_mask(self.polygons),
            polygons=self.polygons if self.kind == 'polygon' else [],
            place=self.place,
        )


def _parse(file: Path, faults: dict[str, list[str]]) -> tuple:
    content = parse_json(file, read_text(file))
    shapes = content.get('shapes') if isinstance(content, dict) else None
    if not isinstance(shapes, list) or not all(isinstance(shape, dict) for shape in shapes):
        raise ValueError('no list "shapes" of objects, so it is not of labelme')

    found: dict[object, _Shape] = {}
    for number, entry in enumerate(shapes):
        if entry.get('label') in RESERVED:  # as labelme's own converters
            continue
        shape = _parse_shape(entry, f'{file}: shapes[{number}]', faults)
        if shape is None:
            continue
        # Polygons of a group are parts of one object; any other shape is an object.
        key: object = number
        if shape.kind == 'polygon' and entry.get('group_id') is not None:
            key = (shape.name, reprlib.repr(entry['group_id']))
        if key in found:
            found[key].polygons += shape.polygons
        else:
            found[key] = shape

    size = content.get('imageWidth'), content.get('imageHeight'), str(file)
    objects = [shape.to_labelled() for shape in found.values()]
    return str(content.get('imagePath') or ''), size, objects


def _parse_shape(entry: dict, place: str, faults: dict[str, list[str]]) -> _Shape | None:
    """Read a shape; a problem is added to `faults`, and None returned."""
    kind = entry.get('shape_type', 'polygon')
    if isinstance(kind, str):
        kind = AS_CORNERS.get(kind, kind)
    if kind not in ('polygon', 'rectangle', 'circle'):
        faults['shape without an area'].append(f'{place} ({reprlib.repr(kind)})')
        return None
    name, points = entry.get('label'), entry.get('points')
    fewest = 3 if kind == 'polygon' else 2
    if not name or not isinstance(name, str) or not _are_points(points, fewest):
        faults['label that cannot be read'].append(place)
        return None
    if kind == 'circle':  # centre and a point of the circle
        (x, y), radius = points[0], math.dist(*points[:2])
        points = [[x - radius, y - radius], [x + radius, y + radius]]
    polygon = []
    for point in points:
        polygon += [float(value) for value in point]
    return _Shape(name=name, kind=kind, place=place, polygons=[polygon])


def _are_points(points: Any, fewest: int) -> bool:
    """Return True for a list of `fewest` or more points [x, y]."""
    if not isinstance(points, list) or len(points) < fewest:
        return False
    return all(are_numbers(point) and len(point) == 2 for point in points)
