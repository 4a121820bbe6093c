"""Inputs of a prediction: images, folders, globs, videos, streams and lists of them, or pairs for
stereo.
"""

import glob
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from urllib.parse import urlsplit

import cv2
import numpy as np

from mmflatten.console import print_progress, quiet_decoders
from mmflatten.data_folders import IMAGE_SUFFIXES, OTHER_IMAGES
from mmflatten.datasets.bands import ARRAY_SUFFIX
from mmflatten.predict.videos import opencv_name
from mmflatten.text import clip, shorten
from mmflatten.untrusted.files import absolute_name, images_in, problem_of

VIDEOS = ('.avi', '.m4v', '.mkv', '.mov', '.mp4', '.mpeg', '.mpg', '.webm')
SUFFIXES = (*IMAGE_SUFFIXES, ARRAY_SUFFIX, *VIDEOS)
MAX_CAMERA = 99  # OpenCV takes the hundreds of a number for the library to open the camera with
STREAMS = ('http', 'https', 'rtmp', 'rtsp')


@dataclass(frozen=True)
class Input:
    """One image, stereo pair or video frame.

    Attributes:
        name: stem of the result files, unique within a run.
        source: path of the image, left image or video.
        image: a file, the left and right file of a pair, or RGB pixels of a video frame.
        video: stem of the video's result files and frames per second, for a frame.
    """

    name: str
    source: str
    image: str | tuple[str, str] | np.ndarray
    video: tuple[str, float] | None = None


class Inputs:
    """Inputs of a command line, in order. Videos are read during iteration.

    `failures` has an error for each word that names nothing to predict, and later for each video
    that has fewer frames than its header states.

    Args:
        words: files, folders (images directly inside, sorted by name, without hidden files), globs,
            videos, addresses of streams and numbers of cameras. `-` reads one input per line from
            the standard input.
        pairs: stereo pairs from two images, or from two folders. Images of two folders are paired
            by name if any names match, otherwise by order.
        frames: maximum number of frames of each video, stream or camera.

    Raises:
        FileNotFoundError: none of the inputs exists.
        ValueError: no input can be used. The error is that of the first one: a folder has no
            images, a file type is unknown, a video has no frames. Or images are not paired.
    """

    def __init__(
        self, words: Iterable[str], pairs: bool = False, frames: int | None = None
    ) -> None:
        self._limit = frames
        self.failures: list[Exception] = []
        lines = (
            line
            for word in words
            for line in (map(str.strip, sys.stdin) if word == '-' else [word])
        )
        words = [line for line in lines if line]
        if not words:
            raise ValueError('INPUT: expected an image, a folder, a glob or a video, got nothing.')
        self._items: list[tuple[str, ...]] = list(_pairs(words)) if pairs else []
        self._frames = [0] * len(self._items)  # of a video
        for word in words if not pairs else ():
            try:
                self._add(_expand(word))
            except (OSError, ValueError) as error:
                self.failures.append(error)
        if not self._items:
            raise self.failures[0]

    def _add(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                frames = _count_frames(path) if _is_video(path) else 0
            except ValueError as error:
                self.failures.append(error)
            else:
                self._items.append((path,))
                self._frames.append(frames)

    def __len__(self) -> int:
        """Return the number of images and pairs, plus the frames that the video headers state."""
        return sum(min(frames or 1, self._limit or frames or 1) for frames in self._frames)

    @property
    def endless(self) -> bool:
        """True if a stream or camera is among the inputs, whose number of frames is unknown."""
        return any(is_stream(path) for path in chain.from_iterable(self._items))

    def __iter__(self) -> Iterator[Input]:
        stems = [os.fsencode(_stem(item[0])).decode(errors='replace') for item in self._items]
        used = dict.fromkeys(stems, 0)  # a numbered name must not be the stem of another input
        names = [_unique(stem, used) for stem in stems]
        for name, item, frames in zip(names, self._items, self._frames):
            file, source, number = item[0], _without_password(item[0]), 0
            if not frames:
                yield Input(name, file, item if len(item) == 2 else file)
                continue
            for number, (frame, rate) in enumerate(islice(_read_frames(file), self._limit), 1):
                yield Input(_unique(f'{name}_{number - 1:06d}', used), source, frame, (name, rate))
            if number < min(frames, self._limit or frames):
                self.failures.append(
                    ValueError(
                        f'{source}: video ends after frame {number} of {frames}. The file may '
                        'be damaged.'
                    )
                )

    def require_outside(self, folders: Iterable[Path]) -> None:
        """Raise ValueError if an input is in a folder whose files will be replaced."""
        written = [folder.resolve() for folder in folders]
        for path in chain.from_iterable(self._items):
            # `resolve` fails for a link to itself
            if Path(os.path.realpath(path)).parent in written:
                raise ValueError(
                    f'INPUT: must not be in a folder of results, got {path}. Use another --out.'
                )


def _expand(word: str) -> list[str]:
    """Return the file of a word, or the files of a folder or glob."""
    if is_stream(word):
        return [word]
    if os.path.isdir(word):
        return _images_of(word)
    problem = problem_of(word, sys.maxsize)
    if problem is None:
        if Path(word).suffix.lower() not in SUFFIXES:
            raise ValueError(
                f'INPUT: unknown file type, got {word}. Expected {", ".join(SUFFIXES)}.'
            )
        return [word]
    if os.path.lexists(word):
        raise ValueError(f'INPUT: {word} {problem}. Name an image, a folder or a video.')
    files = sorted(
        name for name in glob.glob(word, recursive=True) if Path(name).suffix.lower() in SUFFIXES
    )
    if not files:
        if glob.has_magic(word):
            problem = 'matches no image or video'
        raise FileNotFoundError(f'INPUT: {word} {problem}. Check the path.')
    return files


def _images_of(folder: str) -> list[str]:
    try:
        files = list(map(str, images_in(Path(folder), IMAGE_SUFFIXES)))
        # Arrays beside images may be anything.
        files = files or list(map(str, images_in(Path(folder), (ARRAY_SUFFIX,))))
        others = images_in(Path(folder), OTHER_IMAGES)
    except OSError as error:
        raise ValueError(
            f'INPUT: the folder {folder} cannot be read: {error.strerror}. Check its permissions.'
        ) from error
    if others:
        print_progress(
            f'INPUT {folder}: left out {len(others)} images of other types'
            f' ({shorten([*map(str, others)], 3)}). Convert them, or rename .jfif and .jpe to'
            ' .jpg.'
        )
    if not files:
        raise ValueError(
            f'INPUT: the folder has no images, got {folder}. Expected {", ".join(IMAGE_SUFFIXES)}.'
        )
    return files


def _pairs(words: list[str]) -> list[tuple[str, str]]:
    if len(words) != 2:
        raise ValueError(
            f'INPUT: expected a left and a right input for stereo, got {len(words)}'
            f' ({", ".join(words)}).'
        )
    left, right = map(_expand, words)
    videos = [path for path in (*left, *right) if _is_video(path)]
    if videos:
        raise ValueError(
            f'INPUT: expected images for stereo, got videos ({shorten(videos, 3)}). '
            'Save the frames as images.'
        )
    lefts, rights = (Counter(Path(path).stem for path in side) for side in (left, right))
    if lefts & rights:
        left, right = (sorted(side, key=lambda path: Path(path).stem) for side in (left, right))
        unpaired = [
            f'{word} lacks {shorten(sorted(missing), 3)}'
            for word, missing in ((words[0], rights - lefts), (words[1], lefts - rights))
            if missing
        ]
        if unpaired:
            raise ValueError(
                f'INPUT: left and right images must have the same names, got {"; ".join(unpaired)}.'
            )
    if len(left) != len(right):
        raise ValueError(
            f'INPUT: expected as many left as right images, got {len(left)} in {words[0]} and '
            f'{len(right)} in {words[1]}.'
        )
    return list(zip(left, right))


def _is_video(path: str) -> bool:
    return is_stream(path) or Path(path).suffix.lower() in VIDEOS


def is_stream(word: str) -> bool:
    """Return True for an address of a stream, such as `rtsp://...`, and for the number of a
    camera.
    """
    return word.partition('://')[0].lower() in STREAMS if '://' in word else _is_camera(word)


def _is_camera(word: str) -> bool:
    return word.isdecimal() and not os.path.exists(word)


def _stem(path: str) -> str:
    if _is_camera(path):
        return f'camera_{path}'
    return (
        Path(urlsplit(path).path).stem or urlsplit(path).hostname or 'stream'
        if is_stream(path)
        else Path(path).stem
    )


def _without_password(path: str) -> str:
    return re.sub('//[^/]*@', '//', path) if is_stream(path) else path


def _open(path: str) -> cv2.VideoCapture:
    if _is_camera(path):
        return _open_camera(path)
    name = path if is_stream(path) else absolute_name(path)
    return cv2.VideoCapture(opencv_name(name))


def _open_camera(number: str) -> cv2.VideoCapture:
    # Python converts at most 4300 digits to an integer.
    if len(number) > len(str(MAX_CAMERA)) or int(number) > MAX_CAMERA:
        raise ValueError(
            f'INPUT: expected the number of a camera from 0 to {MAX_CAMERA}, got'
            f' {clip(number, 40)}. Use 0 for the first camera, or check the path of a file.'
        )
    return cv2.VideoCapture(int(number))


def _count_frames(path: str) -> int:
    """Return the number of frames that a video header states, 1 for a stream."""
    if is_stream(path):
        with quiet_decoders():
            video = _open(path)
            readable = video.read()[0]
            video.release()
        if not readable:
            raise ValueError(
                f'stream: no frame can be read, got {_without_password(path)}. Check the address or'
                ' the number of the camera.'
            )
        return 1
    if (problem := problem_of(path, sys.maxsize)) is not None:
        raise ValueError(f'video: {path} {problem}.')
    video = _open(path)
    count, readable = int(video.get(cv2.CAP_PROP_FRAME_COUNT)), video.read()[0]
    video.release()
    if not readable:
        raise ValueError(
            f'video: no frame can be read, got {path}. The file may be damaged or use an unknown'
            ' codec.'
        )
    return max(count, 1)


def _unique(stem: str, used: dict[str, int]) -> str:
    """Return the stem, with a number if it is in use. `used` counts the uses of each name, 0 for a
    reserved stem.
    """
    used[stem] = used.get(stem, 0) + 1
    if used[stem] == 1:
        return stem
    while (name := f'{stem}_{used[stem]}') in used:
        used[stem] += 1
    used[name] = 1
    return name


def _read_frames(path: str) -> Iterator[tuple[np.ndarray, float]]:
    """Yield each frame as an RGB view of BGR pixels, with the frames per second."""
    video = _open(path)
    rate = video.get(cv2.CAP_PROP_FPS) or 25.0
    try:
        readable, frame_bgr = video.read()
        while readable:
            yield frame_bgr[..., ::-1], rate
            readable, frame_bgr = video.read()
    finally:
        video.release()
