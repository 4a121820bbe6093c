"""Files of images: of known formats, and of bounded decoding time."""

import os
import re

from mmflatten.untrusted.files import open_regular, problem_of

# Pillow would give an EPS to Ghostscript
IMAGE_FORMATS = ('BMP', 'JPEG', 'PNG', 'PPM', 'TIFF', 'WEBP')
# Decoding time grows with the scans of a JPEG, of which encoders write about ten and a hostile file
# thousands.
MAX_JPEG_SCANS = 100
_START_OF_SCAN, _END_OF_IMAGE = b'\xda', b'\xd9'
# The other bytes after 0xff belong to the coded pixels.
_JPEG_MARKER = re.compile(rb'\xff([\x02-\xcf\xd9-\xfe])', re.DOTALL)
_SIGNATURES = re.compile(
    rb'BM|\xff\xd8\xff|\x89PNG\r\n\x1a\n|P[1-6][\s#]|II[*+]\0|MM\0[*+]|RIFF....WEBP', re.DOTALL
)


def problem_of_image(path: str | os.PathLike) -> str | None:
    """Say why a path cannot be read as an image of `IMAGE_FORMATS`; None if it can."""
    if (problem := problem_of(path)) is not None:
        return problem
    try:
        with open_regular(path) as file:
            content = file.read(12)
            if content.startswith(b'\xff\xd8'):
                content += file.read()
    except OSError as error:  # such as /proc/self/mem
        return f'cannot be read: {error.strerror}'
    if is_image(content):
        return None
    return (
        f'is not an image of {", ".join(IMAGE_FORMATS)} (JPEG: of at most {MAX_JPEG_SCANS} scans)'
    )


def is_image(content: bytes) -> bool:
    """Return True if content begins as one of `IMAGE_FORMATS`, and is not a JPEG of more than
    `MAX_JPEG_SCANS`.

    OpenCV reads a dozen more formats, by content.
    """
    return _SIGNATURES.match(content) is not None and _has_few_scans(content)


def _has_few_scans(content: bytes) -> bool:
    is_jpeg = content.startswith(b'\xff\xd8')
    # Nearly all files end here. Other data of a file, such as a video behind the image, may have
    # these bytes, too.
    if not is_jpeg or content.count(b'\xff' + _START_OF_SCAN) <= MAX_JPEG_SCANS:
        return True
    scans = 0
    marker = _JPEG_MARKER.search(content, 2)
    while marker is not None and marker[1] != _END_OF_IMAGE:
        if marker[1] == _START_OF_SCAN:
            scans += 1
        if scans > MAX_JPEG_SCANS:
            return False
        segment = int.from_bytes(content[marker.end() : marker.end() + 2])
        marker = _JPEG_MARKER.search(content, marker.end() + segment)
    return True
