"""Six small images with COCO annotations, and readers of them."""

import json
from pathlib import Path

import cv2
import numpy as np

from mmflatten.custom_data import detection
from mmflatten.custom_data.reading import Request

SIZE = (48, 64)  # height, width


def write_image(path: Path, seed: int, size: tuple[int, int] = SIZE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8))
    return path


def coco(images: int = 6) -> dict:
    """An object of each of two classes, with sparse ids, in every image."""
    listed = [
        dict(id=i, file_name=f'{i}.png', height=SIZE[0], width=SIZE[1]) for i in range(images)
    ]
    objects = []
    for i in range(images):
        shared = dict(image_id=i, area=400, iscrowd=0)
        objects += [
            dict(shared, id=2 * i + 1, category_id=7, bbox=[4, 4, 20, 20]),
            dict(shared, id=2 * i + 2, category_id=90, bbox=[24, 4, 20, 20]),
        ]
    return dict(
        images=listed,
        annotations=objects,
        categories=[dict(id=7, name='round'), dict(id=90, name='square')],
    )


def read_detection(folder: Path, *contents: dict, classes: list[str] | None = None):
    """Read each of `contents` as an annotation file of `folder`."""
    files = [folder / f'{i}.json' for i in range(len(contents))]
    for file, content in zip(files, contents):
        file.write_text(json.dumps(content))
    return detection.read(request(folder, *files, classes=classes), None)


def request(folder: Path, *ann: Path, classes: list[str] | None = None) -> Request:
    return Request('', [folder / 'images'], '', folder / 'mine.py', ann, classes, val_share=0.3)


def found(data) -> dict[str, bool]:
    """Whether each problem stops, by its name."""
    return {problem.name: problem.stops for problem in data.problems}
