"""Labels of labelme: a JSON file per image."""
import json
import math
import re
from pathlib import Path

from mmflatten.own_data.coco import are_numbers
from mmflatten.own_data.data import Request
from mmflatten.own_data.labels import Labelled, Labels, box_of, read_files


def read(ann: list[Path], images: list[Path], request: Request) -> list[Labels]:
    """Read folders of JSON files. Polygons of one label and `group_id` are one object."""
    return read_files(ann, images, '.json', _parse)


def _parse(file: Path, faults: dict[str, list[str]]) -> tuple:
    text = file.read_text(encoding='utf-8')
    content, lines = json.loads(text), _lines(text)
    shapes = content.get('shapes') if isinstance(content, dict) else None
    if not isinstance(shapes, list) or len(shapes) != len(lines):
        raise ValueError('no list "shapes" of objects, so it is not of labelme')
    objects: dict[object, Labelled] = {}
    for shape, line in zip(shapes, lines):
        name, points, kind, place = shape.get('label'), shape.get('points'), shape.get('shape_type'), f'{file}:{line}'
        if kind not in ('polygon', 'rectangle', 'circle'):
            faults['shape without an area'].append(f'{place} ({kind})')
            continue
        if not name or not isinstance(name, str) or not isinstance(points, list) or (
                len(points) < (3 if kind == 'polygon' else 2)) or not all(
                are_numbers(point) and len(point) == 2 for point in points):
            faults['label that cannot be read'].append(place)
            continue
        if kind == 'circle':  # centre and a point of the circle
            (x, y), radius = points[0], math.dist(*points[:2])
            points = [[x - radius, y - radius], [x + radius, y + radius]]
        polygon = [float(value) for point in points for value in point]
        grouped = kind == 'polygon' and shape.get('group_id') is not None
        key = (name, str(shape.get('group_id'))) if grouped else place + str(len(objects))
        polygons = [*(objects[key].polygons if key in objects else []), polygon]
        objects[key] = Labelled(name.strip(), box_of(polygons), polygons if kind == 'polygon' else [], place)
    size = content.get('imageWidth'), content.get('imageHeight'), str(file)
    return str(content.get('imagePath') or ''), size, list(objects.values())


def _lines(text: str) -> list[int]:
    """Return the line of each entry of the list `shapes`."""
    lines: list[int] = []
    start = re.search(r'"shapes"\s*:\s*\[', text)
    position, decoder, gap = start.end() if start else len(text), json.JSONDecoder(), re.compile(r'[\s,]*(?=\{)')
    while match := gap.match(text, position):
        lines.append(text.count('\n', 0, match.end()) + 1)
        position = decoder.raw_decode(text, match.end())[1]
    return lines
