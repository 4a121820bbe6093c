"""Converting data: `mmflatten data convert`."""
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml

from mmflatten.custom_data.coco import CocoFile
from mmflatten.custom_data.detection import is_mask, read_checked
from mmflatten.custom_data.images import divide, find_images, picture_problems
from mmflatten.custom_data.reading import CustomData, DataError, Request
from mmflatten.datasets.build import atomic_folder
from mmflatten.files import problem_of, read_deep, to_eight_bits


def convert(request: Request, to: str, value_range: tuple[int, int] | None, boxes: bool) -> Iterator[str]:
    """Convert the data of `request.ann` into the folder `request.out`, and yield lines for the user.

    Args:
        to: `coco`, `yolo`, or `8bit` for a folder of images with 16 bits.
        value_range: values of 16-bit images that become 0 and 255.
        boxes: leave polygons out.

    Raises:
        DataError: the data have errors. Nothing is written.
    """
    source = request.ann[0]
    for path in (*request.ann, *request.images):
        if not path.exists():
            raise FileNotFoundError(f'{path} does not exist.')
    if len(request.ann) > (limit := 1 if to == '8bit' else 2):
        raise DataError(f'source: expected {"one folder" if limit == 1 else "training data, and validation data"}, '
                        f'got {len(request.ann)} paths. Convert them one by one.')
    if request.out.exists():
        raise DataError(f'--out {request.out}: exists. Choose another name.')
    request.images = request.images or [path if path.is_dir() else path.parent for path in request.ann]
    if (to == '8bit') != (value_range is not None):
        raise DataError('--range: expected LOW HIGH for --to 8bit, and only there.')
    if to != '8bit':
        yield from _convert_labels(request, to, boxes)
        return
    files = find_images(source)
    with atomic_folder(request.out) as out:
        for path in files:
            target = out / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            if (problem := problem_of(path)) is not None:
                raise DataError(f'{path} {problem}. Replace or remove it.')
            pixels = read_deep(path)
            if pixels is None:
                shutil.copy2(path, target)
            else:
                target.write_bytes(cv2.imencode(path.suffix, to_eight_bits(pixels, *value_range))[1].tobytes())
    yield f'written: {request.out}, {len(files)} images'


def _convert_labels(request: Request, to: str, boxes: bool) -> Iterator[str]:
    parts, pictures, problems = read_checked(request)
    if not any(problem.stops for problem in problems) and len(parts) == 1 and request.val_share:
        parts = [parts[0].subset(side, parts[0].path) for side in divide(request, pictures, {})]
    problems += picture_problems(pictures, parts[0].images, parts[-1].images if len(parts) > 1 else ())
    yield from (('error: ' if problem.stops else 'warning: ') + str(problem) for problem in problems)
    CustomData('', {}, {}, (0, 0), problems=problems).require_usable()
    names = ('train', 'val') if len(parts) == 2 else ('train',)
    with atomic_folder(request.out) as out:
        for part, name in zip(parts, names):
            if to == 'coco':
                (out / f'{name}.json').write_text(json.dumps(part.content) + '\n', encoding='utf-8')
            else:
                yield from _write_yolo(part, out, name, boxes)
        if to == 'yolo':
            content = {**{name: f'images/{name}' for name in names}, 'names': dict(enumerate(parts[0].names))}
            (out / 'data.yaml').write_text(yaml.safe_dump(content, sort_keys=False, width=sys.maxsize))
    given = f'--ann {request.out}/data.yaml' if to == 'yolo' else (
        f'--images {" ".join(str(part.folder) for part in parts)} --ann '
        + ' '.join(f'{request.out}/{name}.json' for name in names))
    yield f'written: {request.out}; next: mmflatten init --task det {given} --base CONFIG --out mine.py'


def _write_yolo(part: CocoFile, out: Path, name: str, boxes: bool) -> Iterator[str]:
    """Copy the images and write their labels, as polygons if every object has a segmentation."""
    labels = {path: (Path(image['file_name']).with_suffix('.txt'), image) for path, image in part.images.items()}
    if len({file for file, _ in labels.values()}) < len(labels) or any(
            file.is_absolute() or '..' in file.parts for file, _ in labels.values()):
        raise DataError(f'{part.path}: file_name must be below the folder of images, and unique without its suffix.')
    ids = {category['id']: number for number, category in enumerate(part.content['categories'])}
    objects: dict[Any, list[dict]] = {image['id']: [] for _, image in labels.values()}
    for annotation in part.content['annotations']:
        if not annotation['iscrowd']:
            objects[annotation['image_id']].append(annotation)
    used = sum(objects.values(), [])
    listed = {image['id']: image for _, image in labels.values()}
    masks = not boxes and bool(used) and all(
        item.get('segmentation') and is_mask(item['segmentation'], listed[item['image_id']]) for item in used)
    for path, (file, image) in labels.items():
        lines = [f'{ids[item["category_id"]]} {_numbers(item, image, masks)}\n' for item in objects[image['id']]]
        for target in (out / 'images' / name / image['file_name'], out / 'labels' / name / file):
            target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, out / 'images' / name / image['file_name'])
        (out / 'labels' / name / file).write_text(''.join(lines), encoding='utf-8')
    crowds = len(part.content['annotations']) - len(used)
    yield f'{name}: {len(labels)} images, {len(used)} objects as {"polygons" if masks else "boxes"}' + (
        f'; {crowds} crowds are left out' if crowds else '')


def _numbers(annotation: dict, image: dict, masks: bool) -> str:
    """Return the fractions of a line: box with its centre, or one polygon."""
    size = np.array([image['width'], image['height']])
    x, y, width, height = annotation['bbox']
    corners = np.clip(np.array([[x, y], [x + width, y + height]]) / size, 0, 1)
    values = np.concatenate([corners.mean(0), corners[1] - corners[0]])
    polygons = _polygons(annotation['segmentation'], image) if masks else []
    if masks:
        polygons = polygons or [[x, y, x + width, y, x + width, y + height, x, y + height]]
        joined = [value for polygon in polygons for value in polygon + polygon[:2] * (len(polygons) > 1)]
        joined += [value for polygon in polygons[-2:0:-1] for value in polygon[:2]]  # seams without area
        values = np.clip(np.reshape(joined, (-1, 2)) / size, 0, 1).reshape(-1)
    return ' '.join(f'{value:.6f}' for value in values)


def _polygons(segmentation: list | dict, image: dict) -> list[list[float]]:
    """Return polygons, or the outlines of run lengths without their holes."""
    if isinstance(segmentation, list):
        return segmentation
    from pycocotools import mask
    if isinstance(segmentation['counts'], list):
        segmentation = mask.frPyObjects(segmentation, image['height'], image['width'])
    contours, _ = cv2.findContours(mask.decode(segmentation), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    return [(contour.reshape(-1) + .5).tolist() for contour in contours if len(contour) > 2]
