"""Files of XML."""

import re
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from mmflatten.untrusted.files import read_bytes

_ENCODINGS = re.compile(
    r'utf-?(8|16)|(us-)?ascii|latin-?1|iso-8859-\d+|windows-125\d|koi8-[ru]', re.IGNORECASE
)


def read_xml(file: Path) -> Element:
    """Parse an XML file; the attribute `line` of each element has its line.

    Raises expat.ExpatError, or ValueError for a file that declares entities or an encoding that is
    not for text.
    """
    builder, parser = TreeBuilder(), expat.ParserCreate()

    def start(name: str, attributes: dict) -> None:
        builder.start(name, {**attributes, 'line': str(parser.CurrentLineNumber)})

    def refuse_entity(name: str, *_) -> None:
        raise ValueError(f'declares the entity {name}')

    def check_encoding(version: str, encoding: str | None, standalone: int) -> None:
        if not _ENCODINGS.fullmatch(encoding or 'utf-8'):
            raise ValueError(f'declares the encoding {encoding:.40}')

    parser.StartElementHandler = start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = refuse_entity
    parser.XmlDeclHandler = check_encoding
    parser.Parse(read_bytes(file), True)
    return builder.close()
