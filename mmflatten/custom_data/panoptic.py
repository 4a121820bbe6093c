"""Panoptic data: COCO panoptic JSON, and a folder of PNG files with the segments."""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mmengine.config import Config
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mmflatten.custom_data.images import (
    Picture,
    missing,
    picture_problems,
    read_pictures,
    size_range,
    split,
    too_thin,
)
from mmflatten.custom_data.reading import CustomData, DataError, Request, problems_of
from mmflatten.structures.segments import SegmentError, check_segments, read_segment_ids
from mmflatten.text import shorten
from mmflatten.untrusted.files import read_text
from mmflatten.untrusted.json_files import parse_json

DATASET = 'mmflatten.PanopticDataset'
# name: (is an error, fix)
PANOPTIC_PROBLEMS = {
    'listed image that does not exist': (True, 'correct file_name or --images'),
    'image size differs from the listed size': (
        True,
        'correct width and height; photographs may be rotated (EXIF)',
    ),
    'image without an annotation': (True, 'add it, or remove the image from the list'),
    'annotation of an unknown image_id': (True, 'add the image or remove the annotation'),
    'image annotated twice': (True, 'keep one of the annotations'),
    'unknown category_id': (True, 'add it to categories or remove the segment'),
    'missing PNG file': (
        True,
        'put it into the folder of the name of the JSON file, without .json',
    ),
    'PNG file that does not fit its annotation': (True, 'correct one of them'),
    'class without segments': (False, 'it cannot be learned'),
}


class _Entry(BaseModel):
    """Entry of the JSON file, with other fields, too."""

    model_config = ConfigDict(extra='allow')


class _Segment(_Entry):
    id: int
    category_id: int
    area: float
    bbox: list[float] = Field(min_length=4, max_length=4)


class _Annotation(_Entry):
    image_id: int
    file_name: str
    segments_info: list[_Segment]


class _Image(_Entry):
    id: int
    file_name: str
    width: int
    height: int


class _Category(_Entry):
    id: int
    name: str
    isthing: int = Field(ge=0, le=1)


class _Content(_Entry):
    images: list[_Image] = Field(min_length=1)
    annotations: list[_Annotation]
    categories: list[_Category] = Field(min_length=1)


@dataclass(frozen=True)
class PanopticFile:
    """A COCO panoptic file, the folder of its images and that of its PNG files."""

    path: Path
    folder: Path
    segments: Path
    content: dict[str, Any]

    @property
    def images(self) -> dict[Path, dict]:
        """Image entries by path."""
        return {self.folder / image['file_name']: image for image in self.content['images']}

    def names(self, thing: int) -> list[str]:
        """Names of the things (1) or of the stuff (0), in the order of the file."""
        categories = self.content['categories']
        return [category['name'] for category in categories if category['isthing'] == thing]

    def subset(self, paths: Sequence[Path], file: Path) -> 'PanopticFile':
        """Return the part with these images, to be written to a file."""
        listed = self.images
        images = [listed[path] for path in paths]
        ids = {image['id'] for image in images}
        annotations = [entry for entry in self.content['annotations'] if entry['image_id'] in ids]
        content = dict(self.content, images=images, annotations=annotations)
        return replace(self, path=file, content=content)


def read(request: Request, base: Config) -> CustomData:
    """Read one file that is split, or one for training and one for validation.

    The PNG files of `NAME.json` are in the folder `NAME` beside it, as COCO's are.
    """
    if request.classes:
        raise DataError('--classes: --task panoptic uses all categories of --ann. Leave it out.')
    folders = [*request.images, request.images[-1]]
    parts = [_read_file(path, folder) for path, folder in zip(request.ann, folders)]
    _require_same_categories(parts)
    paths: list[Path] = []
    for part in parts:
        paths += part.images
    pictures = read_pictures(paths, request.pictures)
    places: dict[str, list[str]] = defaultdict(list)
    for part in parts:
        _check_images(part, pictures, places)
        _check_annotations(part, places)

    train, val, lists = _split(parts, pictures, request)
    things, stuff = parts[0].names(1), parts[0].names(0)
    facts = [f'image sizes: {size_range(pictures)}', *_class_facts(train, places)]
    problems = problems_of(places, PANOPTIC_PROBLEMS)
    problems += too_thin(pictures, base)
    problems += picture_problems(pictures, train.images, val.images)
    return CustomData(
        dataset=DATASET,
        train=_arguments(train) | dict(filter_cfg=dict(filter_empty_gt=True)),
        val=_arguments(val),
        counts=(len(train.images), len(val.images)),
        classes=(*things, *stuff),
        num_things=len(things),
        facts=facts,
        problems=problems,
        lists=lists,
        metrics=('mmflatten.PanopticMetric',),
        evaluator=dict(ann_file=val.path, seg_prefix=val.segments),
    )


def _read_file(path: Path, folder: Path) -> PanopticFile:
    if path.is_dir():
        raise DataError(
            f'--ann {path}: expected a COCO panoptic file (.json) for --task panoptic, got a'
            ' folder.'
        )
    segments = path.with_suffix('')
    if not segments.is_dir():
        raise DataError(
            f'--ann {path}: the folder {segments} of its PNG files does not exist. Name it so, or'
            ' link it there.'
        )
    content = parse_json(path, read_text(path))
    try:
        _Content.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = '.'.join(map(str, first['loc'])) or 'content'
        raise DataError(
            f'--ann {path}: {place}: {first["msg"]} ({error.error_count()} such fields). Give'
            ' images, annotations with segments_info, and categories with isthing, as COCO does.'
        ) from error
    names = Counter(category['name'] for category in content['categories'])
    ids = Counter(category['id'] for category in content['categories'])
    repeated = [str(value) for value, count in (names + ids).items() if count > 1]
    if repeated:
        raise DataError(
            f'--ann {path}: categories: expected each id and name once, got'
            f' {shorten(repeated, 5)} repeatedly.'
        )
    return PanopticFile(path.resolve(), folder.resolve(), segments.resolve(), content)


def _require_same_categories(parts: Sequence[PanopticFile]) -> None:
    for thing in (1, 0):
        first, last = parts[0].names(thing), parts[-1].names(thing)
        if sorted(first) != sorted(last):
            differing = sorted({*first} ^ {*last})
            raise DataError(
                f'--ann {parts[-1].path}: categories: expected the names and isthing of'
                f' {parts[0].path}; different: {shorten(differing, 5)}.'
            )
    if not parts[0].names(1) or not parts[0].names(0):
        raise DataError(
            f'--ann {parts[0].path}: categories: expected things (isthing 1) and stuff (isthing'
            ' 0). For things alone use --task det, for stuff alone --task seg.'
        )


def _check_images(
    part: PanopticFile, pictures: Mapping[Path, Picture], places: dict[str, list[str]]
) -> None:
    for path, image in part.images.items():
        if path not in pictures:
            place = missing(path, image['file_name'])
            places['listed image that does not exist'].append(place)
        elif pictures[path].size not in (None, (image['width'], image['height'])):
            places['image size differs from the listed size'].append(str(path))


def _check_annotations(part: PanopticFile, places: dict[str, list[str]]) -> None:
    images = {image['id']: image for image in part.content['images']}
    categories = {category['id'] for category in part.content['categories']}
    annotated = Counter(entry['image_id'] for entry in part.content['annotations'])
    for number, image in images.items():
        if number not in annotated:
            places['image without an annotation'].append(image['file_name'])
    known = []
    for annotation in part.content['annotations']:
        number = annotation['image_id']
        if number in images:
            known.append(annotation)
        else:
            places['annotation of an unknown image_id'].append(f'{number} in {part.path}')
        used = {segment['category_id'] for segment in annotation['segments_info']}
        for category in sorted(used - categories):
            places['unknown category_id'].append(f'{category} of image {number} in {part.path}')
    repeated = [number for number, count in annotated.items() if count > 1]
    places['image annotated twice'] += [f'{number} in {part.path}' for number in repeated]
    with ThreadPoolExecutor() as pool:
        for name, place in pool.map(lambda entry: _check_png(part, images, entry), known):
            if name:
                places[name].append(place)


def _check_png(part: PanopticFile, images: Mapping[int, dict], annotation: dict) -> tuple[str, str]:
    """Compare a PNG file with its annotation; returns the name and the place of a problem."""
    file = part.segments / annotation['file_name']
    image = images[annotation['image_id']]
    if not file.is_file():
        return 'missing PNG file', missing(file, annotation['file_name'])
    try:
        ids = read_segment_ids(str(file), (image['height'], image['width']))
        check_segments(ids, annotation['segments_info'], str(file))
    except SegmentError as error:
        return 'PNG file that does not fit its annotation', str(error)
    return '', ''


def _split(
    parts: Sequence[PanopticFile], pictures: Mapping[Path, Picture], request: Request
) -> tuple[PanopticFile, PanopticFile, dict[Path, str]]:
    """Return the training and the validation part, and the files to write."""
    if len(parts) == 2:
        return parts[0], parts[1], {}
    train_paths, val_paths = split(pictures, request.val_share)
    train = parts[0].subset(train_paths, request.split_file('train', '.json'))
    val = parts[0].subset(val_paths, request.split_file('val', '.json'))
    lists = {part.path: json.dumps(part.content) + '\n' for part in (train, val)}
    return train, val, lists


def _class_facts(train: PanopticFile, places: dict[str, list[str]]) -> list[str]:
    """Return a line for each class with its number of segments in training."""
    numbers: Counter = Counter()
    for annotation in train.content['annotations']:
        numbers.update(segment['category_id'] for segment in annotation['segments_info'])
    lines = []
    for category in train.content['categories']:
        kind = 'thing' if category['isthing'] else 'stuff'
        number = numbers[category['id']]
        lines.append(f'class {category["name"]} ({kind}): {number} segments')
        if not number:
            places['class without segments'].append(category['name'])
    return lines


def _arguments(part: PanopticFile) -> dict[str, Any]:
    return dict(ann_file=part.path, data_prefix=dict(img=part.folder, seg=part.segments))
