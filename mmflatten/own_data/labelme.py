"""Labels of labelme: a JSON file per image."""
import json
import math
import re
from pathlib import Path

from mmflatten.own_data.coco import are_numbers
from mmflatten.own_data.data import Request
from mmflatten.own_data.labels import (
    MALFORMED,
    NO_IMAGE,
    OTHER_SHAPE,
    UNREADABLE,
    ImageFinder,
    Labelled,
    Labels,
    box_of,
    label_files,
)


def read(ann: list[Path], images: list[Path], request: Request) -> list[Labels]:
    """Read folders of JSON files. Polygons of one label and `group_id` are one object."""
    return [_read_folder(folder, root) for folder, root in zip(ann, images)]


def _read_folder(folder: Path, images: Path) -> Labels:
    labels, find = Labels(folder), ImageFinder(images, folder)
    for file in label_files(folder, '.json'):
        try:
            text = file.read_text(encoding='utf-8')
            content = json.loads(text)
            lines = _lines(text)
        except (ValueError, RecursionError) as error:  # also if not UTF-8
            labels.faults[UNREADABLE].append(f'{file}:{getattr(error, "lineno", 1)} ({error})')
            continue
        if not isinstance(content, dict) or not isinstance(content.get('shapes'), list) or (
                len(content['shapes']) != len(lines)):
            labels.faults[UNREADABLE].append(f'{file}:1 (no list "shapes" of objects, so it is not of labelme)')
            continue
        name = str(content.get('imagePath') or '')
        image = find(file, name)
        if image is None:
            labels.faults[NO_IMAGE].append(f'{file} (imagePath {name})')
            continue
        width, height = content.get('imageWidth'), content.get('imageHeight')
        if width and height:
            labels.sizes[image] = width, height, str(file)
        labels.images[image] = _objects(content['shapes'], [f'{file}:{line}' for line in lines], labels.faults)
    return labels


def _objects(shapes: list, places: list[str], faults: dict[str, list[str]]) -> list[Labelled]:
    objects: dict[object, Labelled] = {}
    for number, (shape, place) in enumerate(zip(shapes, places)):
        name, points, kind = shape.get('label'), shape.get('points'), shape.get('shape_type', 'polygon')
        if kind not in ('polygon', 'rectangle', 'circle'):
            faults[OTHER_SHAPE].append(f'{place} ({kind})')
            continue
        points = points if isinstance(points, list) else []
        if not name or not isinstance(name, str) or len(points) < (3 if kind == 'polygon' else 2) or not all(
                are_numbers(point) and len(point) == 2 for point in points):
            faults[MALFORMED].append(place)
            continue
        if kind == 'circle':  # centre and a point of the circle
            (x, y), radius = points[0], math.dist(*points[:2])
            points = [[x - radius, y - radius], [x + radius, y + radius]]
        polygon = [float(value) for point in points for value in point]
        group = shape.get('group_id')
        key = number if group is None or kind != 'polygon' else (name, str(group))
        polygons = [*(objects[key].polygons if key in objects else []), polygon]
        objects[key] = Labelled(name.strip(), box_of(polygons), polygons if kind == 'polygon' else [], place)
    return list(objects.values())


def _lines(text: str) -> list[int]:
    """Return the line of each entry of the list `shapes`."""
    lines: list[int] = []
    start = re.search(r'"shapes"\s*:\s*\[', text)
    position, decoder, gap = start.end() if start else len(text), json.JSONDecoder(), re.compile(r'[\s,]*(?=\{)')
    while match := gap.match(text, position):
        lines.append(text.count('\n', 0, match.end()) + 1)
        position = decoder.raw_decode(text, match.end())[1]
    return lines
