"""Fashion-MNIST: 70,000 photographs of garments, 28 x 28 grey pixels, in 10 classes.

Source: Xiao, Rasul and Vollgraf, *Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning Algorithms*,
arXiv:1708.07747; MIT licence, Zalando SE, 2017.
"""
import gzip
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from mmflatten.datasets.build import BuildOptions, build

CLASSES = ('T-shirt', 'trouser', 'pullover', 'dress', 'coat', 'sandal', 'shirt', 'sneaker', 'bag', 'ankle boot')
KIND = 'Fashion-MNIST images'
SIDE = 28  # pixels
RAW_FOLDER = Path('data/fashion-mnist')
DEBIAN_FOLDER = Path('/usr/share/datasets/fashion-mnist')
FILES = {'train': ('train-images-idx3-ubyte.gz', 'train-labels-idx1-ubyte.gz'),
         'val': ('t10k-images-idx3-ubyte.gz', 't10k-labels-idx1-ubyte.gz')}
SHA256 = {  # as published
    'train-images-idx3-ubyte.gz': 'b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7',
    'train-labels-idx1-ubyte.gz': '0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056',
    't10k-images-idx3-ubyte.gz': 'cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa',
    't10k-labels-idx1-ubyte.gz': '8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05',
}
SUBSET_SHA256 = {  # the first 1,000 and 200 garments, which the tests use
    'train-images-idx3-ubyte.gz': '857b8f8a243554eadbdf40cc5374e4242449e104d0aabfc90c84500ac1fd36d0',
    'train-labels-idx1-ubyte.gz': 'bfc85198780dd5fa3738b261f2281ae0577e81f8c8d43c33737bdd9d75ce85a2',
    't10k-images-idx3-ubyte.gz': '939222a98a0b9ab0a0a3ab89d4e1899d2201e87cab0538d66c048913292ce3fa',
    't10k-labels-idx1-ubyte.gz': '70d1eb2502f3755442ed583bf8a1edd8a346f8de694f4e55df15fe573b022c92',
}
HOW_TO_GET = (f'install the Debian package dataset-fashion-mnist, or put the four files into {RAW_FOLDER}, or let '
              '`mmflatten data fashion --download` fetch them there')


@dataclass(frozen=True)
class Garments:
    """Garments of one split in the published order: ``images`` (n, 28, 28) uint8, 0 outside a garment; ``labels`` (n,)
    of 0 to 9; ``numbers`` (n,) name each garment: 0 to 59,999 in the training file, 60,000 on in the test file."""

    images: np.ndarray
    labels: np.ndarray
    numbers: np.ndarray


def find_files(folder: Path | None = None) -> Path:
    """The folder, or the first of the usual two, that has all four files.

    Raises FileNotFoundError, which says how to get them.
    """
    folders = (RAW_FOLDER, DEBIAN_FOLDER) if folder is None else (folder, )
    for folder in folders:
        if all((folder / name).is_file() for name in SHA256):
            return folder
    raise FileNotFoundError(f'the four files of Fashion-MNIST are in none of {", ".join(map(str, folders))}; '
                            f'{HOW_TO_GET}')


def download(folder: Path = RAW_FOLDER) -> Path:
    """Fetch the four files into ``folder`` with torchvision's downloader, unless they are there."""
    from torchvision.datasets import FashionMNIST
    from torchvision.datasets.utils import download_url
    for name, md5 in FashionMNIST.resources:
        download_url(FashionMNIST.mirrors[0] + name, str(folder), name, md5)
    return folder


def load_garments(split: str, folder: Path | None = None) -> Garments:
    """The 60,000 garments of the training file ('train') or the 10,000 of the test file ('val').

    Raises FileNotFoundError where there are no files, and ValueError where one is not the published one.
    """
    folder = find_files(folder)
    images, labels = (_read(folder / name, header) for name, header in zip(FILES[split], (16, 8)))
    first = 0 if split == 'train' else 60_000
    return Garments(images.reshape(-1, SIDE, SIDE), labels, np.arange(first, first + len(labels)))


def _read(file: Path, header: int) -> np.ndarray:
    """The bytes behind the header of a compressed IDX file, (n,) uint8, once its SHA-256 is the published one."""
    content = file.read_bytes()
    found, wanted = hashlib.sha256(content).hexdigest(), SHA256[file.name]
    if found not in (wanted, SUBSET_SHA256[file.name]):
        raise ValueError(f'{file} has the SHA-256 {found[:12]}..., not {wanted[:12]}...: it is damaged or another '
                         f'file; {HOW_TO_GET}')
    return np.frombuffer(gzip.decompress(content), dtype=np.uint8, offset=header)


@dataclass(frozen=True)
class FashionOptions(BuildOptions):
    """The first images of each split, in the published order."""

    limits: ClassVar[dict[str, tuple[int, int]]] = dict(train=(1, 60_000), val=(1, 10_000))

    train: int = 60_000
    val: int = 10_000


def build_fashion(out: Path, options: FashionOptions, folder: Path | None = None, force: bool = False,
                  on_image: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """Write ``{train,val}/00000.png`` with the lists ``{train,val}.txt`` of files and labels; returns the manifest."""
    return build(out, KIND, options, partial(_write_split, find_files(folder)), draw_sheet, force, on_image)


def _write_split(source: Path, folder: Path, split: str, options: FashionOptions, on_image: Callable[[], Any]) -> int:
    garments, wanted = load_garments(split, source), getattr(options, split)
    if wanted > len(garments.labels):
        raise ValueError(f'{split} must be at most {len(garments.labels)}, the number in {source}, got {wanted}')
    write_images(folder, split, zip(garments.images[:wanted], garments.labels), on_image)
    return wanted


def write_images(folder: Path, split: str, images: Iterable[tuple[np.ndarray, int]],
                 on_image: Callable[[], Any]) -> None:
    """Write ``{split}/00000.png`` and on, and the list ``{split}.txt`` of files and labels."""
    (folder / split).mkdir()
    lines = []
    for number, (image, label) in enumerate(images):
        lines.append(f'{number:05d}.png {label}\n')
        Image.fromarray(image).save(folder / split / f'{number:05d}.png')
        on_image()
    (folder / f'{split}.txt').write_text(''.join(lines), encoding='ascii')


def draw_sheet(folder: Path) -> None:
    """Write ``contact_sheet.png``: ten images of each class of the training split, a row per class, read back."""
    rows = [[] for _ in CLASSES]
    for line in (folder / 'train.txt').read_text(encoding='ascii').splitlines():
        name, label = line.split()
        if len(rows[int(label)]) < 10:
            rows[int(label)].append(name)
    sheet = Image.new('L', (10 * 2 * SIDE, len(CLASSES) * 2 * SIDE))
    for row, names in enumerate(rows):
        for column, name in enumerate(names):
            with Image.open(folder / 'train' / name) as image:
                sheet.paste(image.resize((2 * SIDE, 2 * SIDE)), (2 * SIDE * column, 2 * SIDE * row))
    sheet.save(folder / 'contact_sheet.png')
