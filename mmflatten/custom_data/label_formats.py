"""Labels of detection in any format that `mmflatten init` reads: which one it is."""

from collections.abc import Callable
from pathlib import Path

from mmflatten.custom_data import labelme, voc, yolo
from mmflatten.custom_data.coco import CocoFile, read_coco
from mmflatten.custom_data.images import read_pictures
from mmflatten.custom_data.reading import DataError, Request
from mmflatten.files import images_in


def read_labels(request: Request) -> list[CocoFile]:
    """Read one or two parts of detection data in COCO's, YOLO's, Pascal VOC's or labelme's format.

    Raises DataError if there are no labels. Problems of single labels are in `faults` of the
    result.
    """
    ann = list(request.ann or ())
    folders = [*request.images, *request.images[-1:]]
    read, ann[0] = _reader(ann[0])
    if read is None:
        return _as_objects([read_coco(file, folder) for file, folder in zip(ann, folders)], request)
    parts = read(ann, [folder.resolve() for folder in folders], request)
    faults = [
        f'{name}: {places[0]}' for part in parts for name, places in part.faults.items() if places
    ]
    if not all(part.images for part in parts):
        raise DataError(
            f'--ann {ann[0]}: no labels of the images in {folders[0]}, got '
            f'{faults[0] if faults else "no label file"}.'
        )
    pictures = read_pictures((path for part in parts for path in part.images), request.pictures)
    used = {item.name for part in parts for objects in part.images.values() for item in objects}
    names = parts[0].names or [*(request.classes or ()), *sorted(used - {*(request.classes or ())})]
    return _as_objects([part.to_coco(names, pictures) for part in parts], request)


def _as_objects(parts: list[CocoFile], request: Request) -> list[CocoFile]:
    """Make crowds objects, if `--crowds-as-objects` asks for it."""
    for part in parts if request.crowds_as_objects else ():
        for entry in part.content['annotations']:
            if entry.get('iscrowd'):
                entry['iscrowd'], part.converted = 0, True
    return parts


def _reader(path: Path) -> tuple[Callable | None, Path]:
    """Return the reader of a file or folder, None for COCO, and the file or folder to start
    from.
    """
    if path.is_file():
        return (yolo.read if path.suffix.lower() in ('.yaml', '.yml') else None), path
    for suffix, read in (
        ('.yaml', yolo.read),
        ('.xml', voc.read),
        ('.json', labelme.read),
        ('.txt', yolo.read),
    ):
        files = images_in(path.resolve(), (suffix,), deep=True)
        if files:
            return read, (files[0] if suffix == '.yaml' else path)
    return None, path
