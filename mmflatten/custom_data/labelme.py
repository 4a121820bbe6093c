"""Labels of labelme: a JSON file per image."""

import math
import reprlib
from pathlib import Path

from mmflatten.custom_data.coco import are_numbers
from mmflatten.custom_data.labels import Labelled, Labels, read_files
from mmflatten.custom_data.reading import Request
from mmflatten.datasets.masks import box_of_mask
from mmflatten.files import parse_json, read_text

RESERVED = ('__ignore__', '_background_')  # names that are no class
AS_CORNERS = {'mask': 'rectangle', 'rotation': 'polygon'}  # of its box, or of a rotated one


def read(ann: list[Path], images: list[Path], request: Request) -> list[Labels]:
    """Read folders of JSON files. Polygons of one label and `group_id` are one object."""
    return read_files(ann, images, '.json', _parse)


def _parse(file: Path, faults: dict[str, list[str]]) -> tuple:
    content = parse_json(file, read_text(file))
    shapes = content.get('shapes') if isinstance(content, dict) else None
    if not isinstance(shapes, list) or not all(isinstance(shape, dict) for shape in shapes):
        raise ValueError('no list "shapes" of objects, so it is not of labelme')
    # name, kind, place and polygons
    found: dict[object, tuple[str, str, str, list[list[float]]]] = {}
    for number, shape in enumerate(shapes):
        name, points, kind = (
            shape.get('label'),
            shape.get('points'),
            shape.get('shape_type', 'polygon'),
        )
        if name in RESERVED:  # as labelme's own converters
            continue
        place = f'{file}: shapes[{number}]'
        if isinstance(kind, str):
            kind = AS_CORNERS.get(kind, kind)
        if kind not in ('polygon', 'rectangle', 'circle'):
            faults['shape without an area'].append(f'{place} ({reprlib.repr(kind)})')
            continue
        if (
            not name
            or not isinstance(name, str)
            or not isinstance(points, list)
            or (len(points) < (3 if kind == 'polygon' else 2))
            or not all(are_numbers(point) and len(point) == 2 for point in points)
        ):
            faults['label that cannot be read'].append(place)
            continue
        if kind == 'circle':  # centre and a point of the circle
            (x, y), radius = points[0], math.dist(*points[:2])
            points = [[x - radius, y - radius], [x + radius, y + radius]]
        polygon = [float(value) for point in points for value in point]
        grouped = kind == 'polygon' and shape.get('group_id') is not None
        key = (name, reprlib.repr(shape.get('group_id'))) if grouped else number
        found.setdefault(key, (name.strip(), kind, place, []))[3].append(polygon)
    size = content.get('imageWidth'), content.get('imageHeight'), str(file)
    return (
        str(content.get('imagePath') or ''),
        size,
        [
            Labelled(name, box_of_mask(polygons), polygons if kind == 'polygon' else [], place)
            for name, kind, place, polygons in found.values()
        ],
    )
