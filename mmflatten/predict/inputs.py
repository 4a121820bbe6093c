"""What a user means by INPUT: images, folders, globs, videos, lists; pairs of them for stereo."""
from __future__ import annotations

import glob
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from mmflatten.checkpoints.rules import shorten
from mmflatten.locate import IMAGE_SUFFIXES

VIDEOS = ('.avi', '.m4v', '.mkv', '.mov', '.mp4', '.mpeg', '.mpg', '.webm')
PICTURES = (*IMAGE_SUFFIXES, *VIDEOS)


@dataclass(frozen=True)
class Input:
    """One image, pair or frame.

    Attributes:
        name: what its results are called, without a suffix; unique within a run.
        source: the file that it comes from, as text.
        image: what `Predictor` takes; the left and right file of a pair; RGB pixels of a video's frame.
        video: for a frame, what the video's results are called, and its frames per second.
    """

    name: str
    source: str
    image: str | tuple[str, str] | np.ndarray
    video: tuple[str, float] | None = None


class Inputs:
    """The inputs of a command line, in their order; videos are read while they are iterated over.

    Args:
        words: files, folders (the images directly in them, by name; no hidden files), globs, videos; `-` reads one
            word a line.
        pairs: for stereo: two images, or two folders whose images pair up by their names where they share any, else by
            their order.
        lines: what `-` reads; the standard input by default.

    Attributes:
        cut: what to say of each video, of those iterated over, that ended before its header says.

    Raises:
        FileNotFoundError: a word names nothing.
        ValueError: a folder without images, a file of an unknown kind, a video without frames, no pairs.
    """

    def __init__(self, words: Iterable[str], pairs: bool = False, lines: Iterable[str] | None = None) -> None:
        listed = sys.stdin if lines is None else lines
        self.cut: list[str] = []
        words = [word for each in words for word in ((line.strip() for line in listed) if each == '-' else [each])]
        words = [word for word in words if word]
        if not words:
            raise ValueError('INPUT is empty: name an image, a folder, a glob or a video')
        self._items = _pairs(words) if pairs else [path for word in words for path in _expand(word)]
        self._frames = [0 if pairs or not is_video(path) else count_frames(path) for path in self._items]

    def __len__(self) -> int:
        """How many there are, a video counted by what its header says."""
        return sum(frames or 1 for frames in self._frames)

    def __iter__(self) -> Iterator[Input]:
        firsts = [item[0] if isinstance(item, tuple) else item for item in self._items]
        stems = [os.fsencode(Path(first).stem).decode(errors='replace') for first in firsts]
        names = dict.fromkeys(stems, 0)  # so that no numbered name is another input's own
        own = [_unique(stem, names) for stem in stems]
        for item, frames, first, name in zip(self._items, self._frames, firsts, own):
            if not frames:
                yield Input(name, first, item)
                continue
            number = 0
            for number, (frame, rate) in enumerate(_read_frames(item), 1):
                yield Input(_unique(f'{name}_{number - 1:06d}', names), item, frame, (name, rate))
            if number < frames:
                self.cut.append(f'{item} after frame {number} of {frames}: the video ends there; is it whole?')

    def require_outside(self, folders: Iterable[Path]) -> None:
        """Raise ValueError where an input lies in a folder whose files will be replaced."""
        written = [folder.resolve() for folder in folders]
        for item in self._items:
            for path in [item] if isinstance(item, str) else item:
                if Path(path).resolve().parent in written:
                    raise ValueError(f'INPUT {path} lies where results are written; name another folder for them')


def is_video(path: str | tuple[str, str]) -> bool:
    return isinstance(path, str) and Path(path).suffix.lower() in VIDEOS


def count_frames(path: str) -> int:
    """Frames of a video, by its header.

    Raises:
        ValueError: it has none, or OpenCV cannot read it.
    """
    video = cv2.VideoCapture(os.fsencode(path))  # as text, a name that is not UTF-8 ends the program
    count, readable = int(video.get(cv2.CAP_PROP_FRAME_COUNT)), video.read()[0]
    video.release()
    if not readable:
        raise ValueError(f'video {path} has no frame that can be read; is it whole, and of a codec that OpenCV knows?')
    return max(count, 1)


def _expand(word: str) -> list[str]:
    path = Path(word)
    if path.is_dir():
        found = [str(file) for file in sorted(path.iterdir()) if file.suffix.lower() in IMAGE_SUFFIXES and
                 not file.name.startswith('.') and not file.is_dir()]
        if not found:
            raise ValueError(f'folder {word} has no image directly in it; {", ".join(IMAGE_SUFFIXES)} count')
        return found
    if path.is_file():
        if path.suffix.lower() not in PICTURES:
            raise ValueError(f'{word} is no image and no video by its name; {", ".join(PICTURES)} count')
        return [word]
    found = sorted(name for name in glob.glob(word, recursive=True) if Path(name).suffix.lower() in PICTURES)
    if not found:
        raise FileNotFoundError(f'{word} does not exist' + (', or matches no image' if glob.has_magic(word) else ''))
    return found


def _pairs(words: list[str]) -> list[tuple[str, str]]:
    if len(words) != 2:
        raise ValueError(f'stereo takes two inputs, left and right, and {len(words)} are given ({", ".join(words)})')
    left, right = map(_expand, words)
    videos = [path for path in (*left, *right) if is_video(path)]
    if videos:
        raise ValueError(f'stereo takes images and no videos ({shorten(videos, 3)}); save the frames as images')
    lefts, rights = (Counter(Path(path).stem for path in side) for side in (left, right))
    if lefts & rights:
        left, right = (sorted(side, key=lambda path: Path(path).stem) for side in (left, right))
        alone = [f'{word} lacks {shorten(sorted(missing), 3)}' for word, missing in (
            (words[0], rights - lefts), (words[1], lefts - rights)) if missing]
        if alone:
            raise ValueError(f'each left image needs a right one of its name: {"; ".join(alone)}')
    if len(left) != len(right):
        raise ValueError(f'{words[0]} has {len(left)} images and {words[1]} {len(right)}; each left one needs its '
                         'right one')
    return list(zip(left, right))


def _unique(stem: str, names: dict[str, int]) -> str:
    """The stem, at a second time with a number that makes it a name not in `names`, where 0 is a stem not yet used."""
    names[stem] = names.get(stem, 0) + 1
    if names[stem] == 1:
        return stem
    while (name := f'{stem}_{names[stem]}') in names:
        names[stem] += 1
    names[name] = 1
    return name


def _read_frames(path: str) -> Iterator[tuple[np.ndarray, float]]:
    """RGB pixels of each frame, and the frames per second."""
    video = cv2.VideoCapture(os.fsencode(path))
    rate = video.get(cv2.CAP_PROP_FPS) or 25.
    try:
        while (read := video.read())[0]:
            yield np.ascontiguousarray(read[1][..., ::-1]), rate
    finally:
        video.release()
