"""Labels of detection in any format that `mmflatten init` reads: which one it is."""

from collections.abc import Callable
from pathlib import Path

from mmflatten.custom_data import labelme, voc, yolo
from mmflatten.custom_data.coco import CocoFile, read_coco
from mmflatten.custom_data.images import read_pictures
from mmflatten.custom_data.labels import Labels
from mmflatten.custom_data.reading import DataError, Request
from mmflatten.untrusted.files import images_in

# reader of a folder by the suffix of its label files
READERS = {'.yaml': yolo.read, '.xml': voc.read, '.json': labelme.read, '.txt': yolo.read}


def read_labels(request: Request) -> list[CocoFile]:
    """Read one or two parts of detection data in COCO's, YOLO's, Pascal VOC's or labelme's format.

    Raises DataError if there are no labels. Problems of single labels are in `faults` of the
    result.
    """
    ann = list(request.ann or ())
    folders = [*request.images, *request.images[-1:]]
    read, ann[0] = _reader(ann[0])
    if read is None:
        parts = [read_coco(file, folder) for file, folder in zip(ann, folders)]
    else:
        labels = read(ann, [folder.resolve() for folder in folders], request)
        _require_labels(labels, ann[0], folders[0])
        paths = []
        for part in labels:
            paths += part.images
        pictures = read_pictures(paths, request.pictures)
        names = labels[0].names or _collect_names(labels, request)
        parts = [part.to_coco(names, pictures) for part in labels]
    if request.crowds_as_objects:
        for part in parts:
            _make_objects_of_crowds(part)
    return parts


def _reader(path: Path) -> tuple[Callable | None, Path]:
    """Return the reader of a file or folder, None for COCO, and the file or folder to start
    from.
    """
    if path.is_file():
        is_yaml = path.suffix.lower() in ('.yaml', '.yml')
        return yolo.read if is_yaml else None, path
    # The first suffix with files decides: data.yaml comes before the text files beside it.
    for suffix, read in READERS.items():
        files = images_in(path.resolve(), (suffix,), deep=True)
        if files:
            return read, files[0] if suffix == '.yaml' else path
    return None, path


def _require_labels(parts: list[Labels], ann: Path, folder: Path) -> None:
    """Raise DataError if a part has no labels; the message has the first problem."""
    if all(part.images for part in parts):
        return
    faults = []
    for part in parts:
        faults += [f'{name}: {places[0]}' for name, places in part.faults.items() if places]
    raise DataError(
        f'--ann {ann}: no labels of the images in {folder}, got '
        f'{faults[0] if faults else "no label file"}.'
    )


def _collect_names(parts: list[Labels], request: Request) -> list[str]:
    """Return the names in `--classes`, followed by others of the labels in alphabetical order."""
    used = set()
    for part in parts:
        for objects in part.images.values():
            used.update(item.name for item in objects)
    first = request.classes or ()
    return [*first, *sorted(used - {*first})]


def _make_objects_of_crowds(part: CocoFile) -> None:
    for entry in part.content['annotations']:
        if entry.get('iscrowd'):
            entry['iscrowd'] = 0
            part.converted = True
