"""Image files: found, read whole, compared by their content, divided into training and validation."""
from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from mmengine.utils import ProgressBar
from PIL import Image

from mmflatten.checkpoints.rules import shorten
from mmflatten.locate import IMAGE_SUFFIXES
from mmflatten.own_data.data import OwnDataError, Problem

WORTH_A_BAR = 1000  # images
# What Pillow and OpenCV raise on files that are broken, or of more pixels than Pillow reads.
UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError, cv2.error)


@dataclass(frozen=True)
class Picture:
    """A file: (width, height) as training reads it, None where it is broken, and the SHA-1 of its bytes.

    A file that cannot be opened has its path for a SHA-1.
    """

    size: tuple[int, int] | None
    digest: str


def find_images(folder: Path) -> list[Path]:
    """Image files in a folder and the folders in it, by name; nothing hidden.

    Raises:
        FileNotFoundError: there is no such folder.
        OwnDataError: it holds no image.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f'--images {folder} is not a folder' if folder.exists() else
                                f'folder {folder} does not exist')
    found = sorted(path for path in folder.rglob('*') if path.suffix.lower() in IMAGE_SUFFIXES and _is_there(path)
                   and not any(part.startswith('.') for part in path.relative_to(folder).parts))
    if not found:
        raise OwnDataError(f'folder {folder} has no image in it; {", ".join(IMAGE_SUFFIXES)} count')
    return found


def read_pictures(paths: Iterable[Path]) -> dict[Path, Picture]:
    """Read every file once; those that do not exist are left out."""
    paths = [path for path in dict.fromkeys(paths) if _is_there(path)]
    pictures = {}
    bar = ProgressBar(len(paths), file=sys.stderr, start=len(paths) >= WORTH_A_BAR)
    with ThreadPoolExecutor() as pool:  # OpenCV and Pillow let go of the interpreter while they decode
        for path, picture in zip(paths, pool.map(_read, paths)):
            pictures[path] = picture
            if len(paths) >= WORTH_A_BAR:
                bar.update()
    if len(paths) >= WORTH_A_BAR:
        sys.stderr.write('\n')  # what follows has a line of its own
    return pictures


def _is_there(path: Path) -> bool:
    """Whether it is a file, or a link to nothing, which is found and reported as broken."""
    return path.is_file() or (path.is_symlink() and not path.exists())


def _read(path: Path) -> Picture:
    try:
        content = path.read_bytes()
    except OSError:
        return Picture(None, str(path))
    digest = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    try:
        with Image.open(path) as image:
            image.load()  # a file cut short, which OpenCV would fill with grey
        pixels = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)
    except UNREADABLE:
        pixels = None
    return Picture(None if pixels is None else (pixels.shape[1], pixels.shape[0]), digest)


def picture_problems(pictures: Mapping[Path, Picture], train: Iterable[Path], val: Iterable[Path]) -> list[Problem]:
    """Broken files, and the same content twice: within a part, and in both."""
    broken = [str(path) for path, picture in pictures.items() if picture.size is None]
    training, repeated = _by_content(pictures, train)
    validation, again = _by_content(pictures, val)
    shared = [f'{training[digest]} = {path}' for digest, path in validation.items() if digest in training]
    problems = [
        Problem('broken image', broken, 'replace it or take it out of the annotations; it is cut '
                'short, no image, a link to nothing, closed by its permissions, or of more pixels than Pillow reads'),
        Problem('leakage: same image in training and validation', shared, 'take it out of one of the two, or give one '
                'annotation file or folder and let --val-share split it'),
        Problem('same image twice', repeated + again, 'it counts twice', stops=False)]
    return [problem for problem in problems if problem.where]


def _by_content(pictures: Mapping[Path, Picture], paths: Iterable[Path]) -> tuple[dict[str, Path], list[str]]:
    """The first file of each content, and the others as text."""
    first: dict[str, Path] = {}
    others = []
    for path in paths:
        if path in pictures:
            digest = pictures[path].digest
            if first.setdefault(digest, path) != path:
                others.append(f'{first[digest]} = {path}')
    return first, others


def split(pictures: Mapping[Path, Picture], share: float) -> tuple[list[Path], list[Path]]:
    """Training and validation files: the same on every machine, and files of the same content on the same side.

    Raises:
        OwnDataError: fewer than two different images.
    """
    digests = sorted({picture.digest for picture in pictures.values()})  # an order that says nothing of the content
    if len(digests) < 2:
        raise OwnDataError('one image, or copies of one, cannot be split into training and validation '
                           f'({shorten([*map(str, pictures)], 3)}); add a different one')
    chosen = set(digests[:min(max(round(share * len(digests)), 1), len(digests) - 1)])
    return ([path for path, picture in pictures.items() if picture.digest not in chosen],
            [path for path, picture in pictures.items() if picture.digest in chosen])


def list_text(names: Iterable[str]) -> str:
    """The text of a list of files, a line each.

    Raises:
        OwnDataError: a name would not be read back.
    """
    names = list(names)
    odd = [repr(name) for name in names if name.encode(errors='ignore').decode().strip().splitlines() != [name]]
    if odd:
        raise OwnDataError('names that are not UTF-8, or have a line break or a blank at an end, cannot be listed '
                           f'({shorten(odd, 3)}); rename them')
    return ''.join(f'{name}\n' for name in names)


def sizes_found(pictures: Mapping[Path, Picture]) -> str:
    """The range of the image sizes, as text."""
    sizes = sorted({picture.size for picture in pictures.values() if picture.size}, key=lambda size: size[0] * size[1])
    text = [f'{width} x {height}' for width, height in sizes]
    return text[0] if len(text) == 1 else f'{text[0]} to {text[-1]} ({len(text)} sizes)' if text else 'unknown'
