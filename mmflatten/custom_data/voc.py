"""Labels of Pascal VOC: an XML file per image.

Coordinates count pixels from 1, and the maxima are inside of the box. Difficult objects become
crowds, which are neither learned nor counted as missed.
"""

import re
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from mmflatten.custom_data.coco import are_numbers
from mmflatten.custom_data.labels import Labelled, Labels, read_files
from mmflatten.custom_data.reading import Request
from mmflatten.files import read_bytes, read_text

_ENCODINGS = re.compile(
    r'utf-?(8|16)|(us-)?ascii|latin-?1|iso-8859-\d+|windows-125\d|koi8-[ru]', re.IGNORECASE
)


def read(ann: list[Path], images: list[Path], request: Request) -> list[Labels]:
    """Read folders of XML files. One folder is split by `../ImageSets/Main/{train,val}.txt` if both
    exist.
    """
    parts = read_files(ann, images, '.xml', _parse_labels)
    lists = [
        ann[0].resolve().parent / 'ImageSets' / 'Main' / f'{split}.txt'
        for split in ('train', 'val')
    ]
    if len(parts) > 1 or not all(file.is_file() for file in lists):
        return parts
    (whole,) = parts
    chosen = [
        {line.split()[0] for line in read_text(file).splitlines() if line.strip()} for file in lists
    ]
    whole.faults['image in neither list'] += [
        str(path) for path in whole.images if path.stem not in chosen[0] | chosen[1]
    ]
    return [
        Labels(
            whole.source,
            {path: objects for path, objects in whole.images.items() if path.stem in stems},
            whole.sizes,
            faults,
        )
        for stems, faults in zip(chosen, (whole.faults, {}))
    ]


def _parse_labels(file: Path, faults: dict[str, list[str]]) -> tuple:
    root = parse(file)
    size = root.find('size')
    try:
        stated = (
            int(size.findtext('width')),
            int(size.findtext('height')),
            f'{file}:{size.get("line")}',
        )
    except (AttributeError, TypeError, ValueError):
        stated = None
    objects = []
    for item in root.iter('object'):
        place = f'{file}:{item.get("line")}'
        try:
            name = item.findtext('name').strip()
            x1, y1, x2, y2 = (
                float(item.find('bndbox').findtext(key)) for key in ('xmin', 'ymin', 'xmax', 'ymax')
            )
        except (AttributeError, TypeError, ValueError):
            name = ''
        if not name or not are_numbers([x1, y1, x2, y2]) or not (x1 <= x2 and y1 <= y2):
            faults['label that cannot be read'].append(place)
            continue
        if max(x2, y2) > 1:  # otherwise normalised, which is reported later
            x1, y1 = max(x1 - 1, 0), max(y1 - 1, 0)
        crowd = (item.findtext('difficult') or '').strip() == '1'
        objects.append(Labelled(name, [x1, y1, x2 - x1, y2 - y1], [], place, crowd))
    return root.findtext('filename') or '', stated, objects


def parse(file: Path) -> Element:
    """Parse an XML file; the attribute `line` of each element has its line.

    Raises expat.ExpatError, or ValueError for a file that declares entities or an encoding that is
    not for text.
    """
    builder, parser = TreeBuilder(), expat.ParserCreate()

    def start(name: str, attributes: dict) -> None:
        builder.start(name, {**attributes, 'line': str(parser.CurrentLineNumber)})

    def refuse(name: str, *_) -> None:
        raise ValueError(f'declares the entity {name}')

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = (
        start,
        builder.end,
        builder.data,
    )

    def check(version: str, encoding: str | None, standalone: int) -> None:
        if not _ENCODINGS.fullmatch(encoding or 'utf-8'):
            raise ValueError(f'declares the encoding {encoding:.40}')

    parser.EntityDeclHandler, parser.XmlDeclHandler = refuse, check
    parser.Parse(read_bytes(file), True)
    return builder.close()
