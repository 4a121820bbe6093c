"""Labels of Pascal VOC: an XML file per image.

Coordinates count pixels from 1, and the maxima are inside of the box. Difficult objects become
crowds, which are neither learned nor counted as missed.
"""

from pathlib import Path
from xml.etree.ElementTree import Element

from mmflatten.custom_data.coco import are_numbers
from mmflatten.custom_data.labels import Labelled, Labels, read_files
from mmflatten.custom_data.reading import Request
from mmflatten.untrusted.files import read_text
from mmflatten.untrusted.xml_files import read_xml


def read(ann: list[Path], images: list[Path], request: Request) -> list[Labels]:
    """Read folders of XML files. One folder is split by `../ImageSets/Main/{train,val}.txt` if both
    exist.
    """
    parts = read_files(ann, images, suffix='.xml', parse=_parse_labels)
    folder = ann[0].resolve().parent / 'ImageSets' / 'Main'
    lists = [folder / 'train.txt', folder / 'val.txt']
    if len(parts) > 1 or not all(file.is_file() for file in lists):
        return parts
    whole = parts[0]
    train, val = (_read_stems(file) for file in lists)
    for path in whole.images:
        if path.stem not in train | val:
            whole.faults['image in neither list'].append(str(path))
    # The problems of the folder are reported once, with the training part.
    return [_select(whole, train, whole.faults), _select(whole, val, {})]


def _read_stems(file: Path) -> set[str]:
    """Return the first word of each line, which is the name of an image without suffix."""
    lines = read_text(file).splitlines()
    return {line.split()[0] for line in lines if line.strip()}


def _select(whole: Labels, stems: set[str], faults: dict[str, list[str]]) -> Labels:
    images = {path: objects for path, objects in whole.images.items() if path.stem in stems}
    return Labels(source=whole.source, images=images, sizes=whole.sizes, faults=faults)


def _parse_labels(file: Path, faults: dict[str, list[str]]) -> tuple:
    root = read_xml(file)
    objects = []
    for item in root.iter('object'):
        place = f'{file}:{item.get("line")}'
        name = (item.findtext('name') or '').strip()
        box = _parse_box(item.find('bndbox'))
        if not name or box is None:
            faults['label that cannot be read'].append(place)
            continue
        crowd = (item.findtext('difficult') or '').strip() == '1'
        objects.append(Labelled(name, box=box, polygons=[], place=place, crowd=crowd))
    return root.findtext('filename') or '', _parse_size(root.find('size'), file), objects


def _parse_box(element: Element | None) -> list[float] | None:
    """Return [x, y, width, height], None if the element has no box."""
    try:
        corners = [float(element.findtext(key)) for key in ('xmin', 'ymin', 'xmax', 'ymax')]
    except (AttributeError, TypeError, ValueError):
        return None
    x1, y1, x2, y2 = corners
    if not are_numbers(corners) or not (x1 <= x2 and y1 <= y2):
        return None
    if max(x2, y2) > 1:  # otherwise normalised, which is reported later
        x1, y1 = max(x1 - 1, 0), max(y1 - 1, 0)
    return [x1, y1, x2 - x1, y2 - y1]


def _parse_size(element: Element | None, file: Path) -> tuple[int, int, str] | None:
    """Return width, height and place, None if the file does not state them."""
    try:
        width = int(element.findtext('width'))
        height = int(element.findtext('height'))
    except (AttributeError, TypeError, ValueError):
        return None
    return width, height, f'{file}:{element.get("line")}'
