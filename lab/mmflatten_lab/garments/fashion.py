"""Fashion-MNIST: 70,000 photographs of garments, 28 x 28 grey pixels, 10 classes.

Source: Xiao, Rasul and Vollgraf, *Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine
Learning Algorithms*, arXiv:1708.07747; MIT licence, Zalando SE, 2017.
"""

import gzip
import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mmflatten.untrusted.files import read_bytes

GARMENT_CLASSES = (
    'T-shirt',
    'trouser',
    'pullover',
    'dress',
    'coat',
    'sandal',
    'shirt',
    'sneaker',
    'bag',
    'ankle boot',
)
SIDE = 28  # pixels
RAW_FOLDER = Path('data/fashion-mnist')
DEBIAN_FOLDER = Path('/usr/share/datasets/fashion-mnist')
FILES = {
    'train': ('train-images-idx3-ubyte.gz', 'train-labels-idx1-ubyte.gz'),
    'val': ('t10k-images-idx3-ubyte.gz', 't10k-labels-idx1-ubyte.gz'),
}
SHA256 = {  # as published; of the first 1,000 and 200 garments, for tests
    'train-images-idx3-ubyte.gz': (
        'b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7',
        '857b8f8a243554eadbdf40cc5374e4242449e104d0aabfc90c84500ac1fd36d0',
    ),
    'train-labels-idx1-ubyte.gz': (
        '0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056',
        'bfc85198780dd5fa3738b261f2281ae0577e81f8c8d43c33737bdd9d75ce85a2',
    ),
    't10k-images-idx3-ubyte.gz': (
        'cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa',
        '939222a98a0b9ab0a0a3ab89d4e1899d2201e87cab0538d66c048913292ce3fa',
    ),
    't10k-labels-idx1-ubyte.gz': (
        '8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05',
        '70d1eb2502f3755442ed583bf8a1edd8a346f8de694f4e55df15fe573b022c92',
    ),
}
HOW_TO_GET = (
    f'Install the Debian package dataset-fashion-mnist, put the four files into {RAW_FOLDER}, or'
    ' download them with `mmflatten garments scenes --download`.'
)


class Garments(NamedTuple):
    """Garments of one split in the published order.

    Attributes:
        images: (n, 28, 28) uint8, 0 outside the garment.
        labels: (n,), 0 to 9.
        numbers: (n,), 0 to 59,999 in the training file and 60,000 to 69,999 in the test file.
    """

    images: np.ndarray
    labels: np.ndarray
    numbers: np.ndarray


def find_files(folder: Path | None = None) -> Path:
    """Return `folder`, or the first default folder, with all four files. Raises FileNotFoundError
    if one is missing.
    """
    folders = (RAW_FOLDER, DEBIAN_FOLDER) if folder is None else (folder,)
    for folder in folders:
        if all((folder / name).is_file() for name in SHA256):
            return folder
    raise FileNotFoundError(
        f'Fashion-MNIST: the four files are missing in {" and ".join(map(str, folders))}. '
        f'{HOW_TO_GET}'
    )


def download(folder: Path = RAW_FOLDER) -> Path:
    """Download the four files into `folder` with torchvision's downloader, unless they exist."""
    from torchvision.datasets import FashionMNIST
    from torchvision.datasets.utils import download_url

    for name, md5 in FashionMNIST.resources:
        download_url(FashionMNIST.mirrors[0] + name, str(folder), name, md5)
    return folder


def load_garments(split: str, folder: Path | None = None) -> Garments:
    """Load the 60,000 garments of the training file ('train') or the 10,000 of the test file
    ('val').

    Raises FileNotFoundError for missing files, and ValueError for files that differ from the
    published ones.
    """
    folder = find_files(folder)
    arrays = []
    for name, header in zip(FILES[split], (16, 8)):  # of IDX files
        content = read_bytes(folder / name)
        digest = hashlib.sha256(content).hexdigest()
        if digest not in SHA256[name]:
            raise ValueError(
                f'{folder / name}: expected the SHA-256 {SHA256[name][0][:12]}..., got'
                f' {digest[:12]}.... {HOW_TO_GET}'
            )
        arrays.append(np.frombuffer(gzip.decompress(content), dtype=np.uint8, offset=header))
    images, labels = arrays
    first = 0 if split == 'train' else 60_000
    return Garments(images.reshape(-1, SIDE, SIDE), labels, np.arange(first, first + len(labels)))
