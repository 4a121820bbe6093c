"""Headers of TIFF files, which may hold more than the three bands that OpenCV reads as an image."""
import contextlib
import io
import struct

from PIL.TiffImagePlugin import BITSPERSAMPLE, SAMPLEFORMAT, SAMPLESPERPIXEL, ImageFileDirectory_v2

FLOAT = 3  # among the formats of samples


def tiff_parts(content: bytes) -> str:
    """Say what a TIFF has besides 8 or 16 bits in 1 or 3 bands, such as '4 bands'; '' for nothing else.

    Without decoding. OpenCV and mmcv drop a fourth band and further pages, and read neither floats nor 32 bits.
    """
    if content[:4] not in (b'II*\0', b'MM\0*'):
        return ''
    with contextlib.suppress(ArithmeticError, LookupError, OSError, SyntaxError, TypeError, ValueError, struct.error):
        tags, stream = ImageFileDirectory_v2(content[:8]), io.BytesIO(content)
        stream.seek(start := tags.next)
        tags.load(stream)  # of a damaged header nothing
        bits, bands = max(tags.get(BITSPERSAMPLE, (1,))), tags.get(SAMPLESPERPIXEL, 1)
        parts = {f'{bands} bands': bands not in (1, 3), f'{bits} bits': bits > 16,
                 'float values': FLOAT in tags.get(SAMPLEFORMAT, ()), 'several pages': tags.next not in (0, start)}
        return ', '.join(name for name, present in parts.items() if present)
    return ''
