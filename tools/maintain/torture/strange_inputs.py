"""Strange inputs of `mmflatten predict`: the good pictures among them are predicted, and each bad one is named."""

import csv
import io
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from cases import Results, command, memory_now, run
from PIL import Image
from world import World

CAMPAIGN = 'strange inputs'
GROUP, SECONDS = 20, 60.0  # of inputs that one call gets, and its limit
Maker = Callable[[Path], None]


def campaign(world: World, results: Results, number: int, end: float) -> None:
    """Give strange inputs to `predict`, in groups among good pictures."""
    makers = list(strange(world).items())[:number]
    before = memory_now()
    for first in range(0, len(makers), GROUP):
        if time.monotonic() > end:
            break
        start, folder = time.monotonic(), world.place(f'inputs{first:03d}')
        words = {}
        for number, (name, make) in enumerate(makers[first : first + GROUP]):
            place = folder / f'{number:02d}'
            place.mkdir()
            make(place)
            made = sorted(place.iterdir()) or [place / 'missing.png']
            words[name] = made[0]
        ended = run(
            command(
                ['predict', world.config, world.weights, *words.values(), *world.photos, '--out', folder / 'out'],
                folder,
            ),
            folder / 'output.txt',
            SECONDS,
        )
        lost = ended.fault(before)
        table = folder / 'out' / 'classes.csv'
        predicted = (
            [row[0] for row in csv.reader(io.StringIO(table.read_text(errors='replace')))] if table.exists() else []
        )
        if not lost and not {str(photo) for photo in world.photos} <= set(predicted):
            lost = f'good pictures were lost: {ended.last_line[:200]}'
        text = ended.output + '\n'.join(predicted)
        for name, word in words.items():
            shown = os.fsencode(word).decode(errors='replace')
            named = any(str(part) in text for part in (word, shown, repr(str(word))[1:-1], f'{word.parent.name}/'))
            results.add(
                CAMPAIGN,
                name,
                lost or '' if named else lost or 'neither predicted nor named',
                (time.monotonic() - start) / len(words),
            )


def strange(world: World) -> dict[str, Maker]:
    """Name -> function that makes an input in an empty folder."""
    draw = np.random.default_rng(world.random.randrange(2**32))
    photo = draw.integers(0, 255, (40, 50, 3), np.uint8)
    makers: dict[str, Maker] = {}

    def encoded(suffix: str) -> bytes:
        return cv2.imencode(suffix, photo)[1].tobytes()

    def write(name: str, content: bytes) -> Maker:
        return lambda folder: (folder / name).write_bytes(content) * 0

    def save(name: str, image: Image.Image, **options: object) -> Maker:
        return lambda folder: image.save(folder / name, **options)

    links = {
        'itself': 'a.png',
        'nothing': 'gone',
        '/dev/zero': '/dev/zero',
        '/dev/random': '/dev/random',
        'a folder': '/tmp',
        'a picture': str(world.photos[0]),
        '/proc/self/mem': '/proc/self/mem',
        '/dev/tty': '/dev/tty',
    }
    for name, target in links.items():
        makers[f'link to {name}'] = lambda folder, target=target: (folder / 'a.png').symlink_to(target)
    for suffix in ('.png', '.mp4', '.jpg'):
        makers[f'pipe {suffix}'] = lambda folder, suffix=suffix: os.mkfifo(folder / f'a{suffix}')
    makers |= {
        'socket': lambda folder: _socket(folder / 'a.png'),
        'folder.png': lambda folder: (folder / 'a.png').mkdir(),
        'empty folder': lambda folder: (folder / 'a').mkdir(),
        'missing': lambda folder: None,
        'no permission': lambda folder: (write('a.png', encoded('.png'))(folder), (folder / 'a.png').chmod(0)),
        'sparse terabyte': lambda folder: _sparse(folder / 'a.png', 2**40),
        'text': write('a.txt', b'hello'),
        'EPS as PNG': save('a.png', Image.fromarray(photo), format='EPS'),
        'PDF as JPEG': save('a.jpg', Image.fromarray(photo), format='PDF'),
        'SVG as PNG': write('a.png', b'<svg xmlns="http://www.w3.org/2000/svg"/>'),
        'empty': write('a.png', b''),
        'half a video': write('a.mp4', b'\0\0\0\x20ftypisom\0\0\2\0isomiso2mp41'),
        'text as video': write('a.mov', b'hello'),
    }
    for name in (
        'space name.png',
        'line\nbreak.png',
        'quote\'".png',
        '$(touch x).png',
        'ä€😀.png',
        '-flag.png',
        '%s%d.png',
        os.fsdecode(b'caf\xe9.png'),
        'a' * 200 + '.png',
        '\u202egnp.png',
        '*[a].png',
        'CON.png',
        'tab\t.png',
    ):
        makers[f'name {name[:20]!r}'] = write(name, encoded('.png'))
    for mode in ('1', 'L', 'LA', 'P', 'RGBA', 'I;16', 'I', 'F', 'CMYK', 'YCbCr', 'HSV', 'LAB'):
        image = Image.fromarray(photo).convert('RGB')
        try:
            image = image.convert(mode)
        except ValueError:
            image = image.convert('L').convert(mode)
        for suffix in ('png', 'jpg', 'tif', 'webp'):
            try:
                image.save(io.BytesIO(), format={'jpg': 'JPEG', 'tif': 'TIFF'}.get(suffix, suffix.upper()))
            except (OSError, ValueError):
                continue
            makers[f'mode {mode} {suffix}'] = save(f'a.{suffix}', image)
    for size in ((1, 1), (1, 3000), (3000, 1), (2, 2), (7, 5), (1, 60_000), (4000, 4000)):
        makers[f'{size[0]} x {size[1]}'] = save('a.png', Image.new('RGB', size))
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[274] = orientation
        makers[f'orientation {orientation}'] = save('a.jpg', Image.fromarray(photo), exif=exif)
    frames = [Image.fromarray(np.roll(photo, shift, 0)) for shift in range(3)]
    makers |= {
        'animated WebP': save('a.webp', frames[0], save_all=True, append_images=frames[1:]),
        'animated PNG': save('a.png', frames[0], save_all=True, append_images=frames[1:]),
        'TIFF of three pages': save('a.tif', frames[0], save_all=True, append_images=frames[1:]),
        'GIF': save('a.gif', frames[0]),
        'GIF as PNG': save('a.png', frames[0], format='GIF'),
        'JPEG as PNG': write('a.png', encoded('.jpg')),
        'WebP as BMP': write('a.bmp', encoded('.webp')),
        'huge header': write('a.png', _png_header(10**6, 10**6)),
        'header of 2 Gpx': write('a.png', _png_header(2**31 - 1, 1)),
        'header of 0': write('a.png', _png_header(0, 0)),
        'PNG bomb': save('a.png', Image.new('L', (12_000, 12_000))),
        'huge BMP': write(
            'a.bmp', b'BM' + bytes(12) + (40).to_bytes(4, 'little') + b'\xff\xff\xff\x7f' * 2 + bytes(28)
        ),
        'PPM of stated size': write('a.ppm', b'P6 100000 100000 255\n'),
    }
    if not os.geteuid():  # root may read everything
        del makers['no permission']
    formats = ('.png', '.jpg', '.webp', '.tif', '.bmp', '.ppm')
    while len(makers) < 220:
        suffix = formats[len(makers) % len(formats)]
        content = bytearray(encoded(suffix))
        at, way = world.random.randrange(len(content)), len(makers) % 3
        if way == 0:
            content = content[:at]
        elif way == 1:
            content[at : at + 8] = world.random.randbytes(8)
        else:
            content += world.random.randbytes(1000)
        makers[f'{suffix} number {len(makers)}, {("cut", "overwritten", "longer")[way]} at {at}'] = write(
            f'a{suffix}', bytes(content)
        )
    return makers


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(path.parent)  # the length of a socket's path is limited
        made.bind(path.name)
        os.chdir(here)


def _sparse(path: Path, size: int) -> None:
    with open(path, 'wb') as file:
        file.truncate(size)


def _png_header(width: int, height: int) -> bytes:
    import zlib

    chunk = b'IHDR' + width.to_bytes(4, 'big') + height.to_bytes(4, 'big') + b'\x08\x02\0\0\0'
    return b'\x89PNG\r\n\x1a\n' + (13).to_bytes(4, 'big') + chunk + zlib.crc32(chunk).to_bytes(4, 'big')
