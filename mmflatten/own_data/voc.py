"""Labels of Pascal VOC: an XML file per image.

Coordinates count pixels from 1, and the maxima are inside of the box. Difficult objects become crowds, which are
neither learned nor counted as missed.
"""
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from mmflatten.own_data.data import Request
from mmflatten.own_data.labels import MALFORMED, NO_IMAGE, UNREADABLE, ImageFinder, Labelled, Labels, label_files

SPLITS = ('train', 'val')


def read(ann: list[Path], images: list[Path], request: Request) -> list[Labels]:
    """Read folders of XML files. One folder is split by `../ImageSets/Main/{train,val}.txt` if both exist."""
    parts = [_read_folder(folder, root) for folder, root in zip(ann, images)]
    lists = [ann[0].resolve().parent / 'ImageSets' / 'Main' / f'{split}.txt' for split in SPLITS]
    if len(parts) == 1 and all(file.is_file() for file in lists):
        chosen = [{line.split()[0] for line in file.read_text(encoding='utf-8').splitlines() if line.strip()}
                  for file in lists]
        whole, = parts
        parts = [Labels(whole.source, {path: objects for path, objects in whole.images.items() if path.stem in stems},
                        whole.sizes) for stems in chosen]
        parts[0].faults = whole.faults
    return parts


def _read_folder(folder: Path, images: Path) -> Labels:
    labels, find = Labels(folder), ImageFinder(images, folder)
    for file in label_files(folder, '.xml'):
        try:
            root = parse(file)
        except (expat.ExpatError, ValueError) as error:
            labels.faults[UNREADABLE].append(f'{file}:{getattr(error, "lineno", 1)} ({error})')
            continue
        image = find(file, root.findtext('filename'))
        if image is None:
            labels.faults[NO_IMAGE].append(f'{file}:{_line(root.find("filename"), root)} ({root.findtext("filename")})')
            continue
        size = root.find('size')
        try:
            width, height = (int(size.findtext(name)) for name in ('width', 'height'))
        except (AttributeError, TypeError, ValueError):
            width = height = 0
        if width and height:  # some tools write 0
            labels.sizes[image] = width, height, f'{file}:{_line(size, root)}'
        labels.images.setdefault(image, [])
        for item in root.iter('object'):
            try:
                name = item.findtext('name').strip()
                x1, y1, x2, y2 = (float(item.find('bndbox').findtext(key)) for key in ('xmin', 'ymin', 'xmax', 'ymax'))
            except (AttributeError, TypeError, ValueError):
                name = ''
            place = f'{file}:{_line(item, root)}'
            if not name or not (x1 <= x2 and y1 <= y2):
                labels.faults[MALFORMED].append(place)
                continue
            if max(x1, y1, x2, y2) > 1:  # otherwise normalised, which is reported later
                x1, y1 = max(x1 - 1, 0), max(y1 - 1, 0)
            labels.images[image].append(Labelled(name, [x1, y1, x2 - x1, y2 - y1], [], place,
                                                 (item.findtext('difficult') or '').strip() == '1'))
    return labels


def parse(file: Path) -> Element:
    """Parse an XML file; the attribute `line` of each element has its line. Entities are refused.

    Raises expat.ExpatError, or ValueError for a file that declares entities.
    """
    builder, parser = TreeBuilder(), expat.ParserCreate()

    def start(name: str, attributes: dict) -> None:
        builder.start(name, {**attributes, 'line': str(parser.CurrentLineNumber)})

    def refuse(name: str, *_) -> None:
        raise ValueError(f'declares the entity {name}')

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, builder.end, builder.data
    parser.EntityDeclHandler = refuse
    parser.Parse(file.read_bytes(), True)
    return builder.close()


def _line(element: Element | None, root: Element) -> str:
    return (root if element is None else element).get('line', '1')
