"""Videos of drawings."""

import os
from pathlib import Path

import cv2
import numpy as np

from mmflatten.checkpoints.run_files import partial_file
from mmflatten.text import clip
from mmflatten.untrusted.files import absolute_name

# From this version on, OpenCV takes the name of a video as bytes.
OPENCV_WITH_BYTES = (4, 12)


def opencv_name(name: str) -> str | bytes:
    """Return the name of a video, or the address of a stream, for OpenCV, which aborts the process
    on a str that is not UTF-8.

    Raises ValueError for such a name if this OpenCV does not take bytes.
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        version = tuple(int(part) for part in cv2.__version__.split('.')[:2])
        if version < OPENCV_WITH_BYTES:
            raise ValueError(
                f'{clip(name, 200)}: expected a name in UTF-8, because OpenCV {cv2.__version__}'
                ' opens no other video. Rename it, or install OpenCV 4.12 or newer.'
            ) from None
        return os.fsencode(name)
    return name


class DrawnVideo:
    """An MP4 file that appears under its name when it is complete.

    Args:
        file: path of the video, in an existing folder.
        rate: frames per second.
        size: (width, height) of all frames.
    """

    def __init__(self, file: Path, rate: float, size: tuple[int, int]) -> None:
        self.file = file
        self._partial = partial_file(file)
        self._frames = 0
        self._writer = cv2.VideoWriter(self._name(), cv2.VideoWriter_fourcc(*'mp4v'), rate, size)

    def add(self, frame: np.ndarray) -> None:
        """Add a frame (height, width, 3) uint8 BGR."""
        self._writer.write(frame)
        self._frames += 1

    def close(self) -> None:
        """Complete the file. Raises OSError if frames are missing in it, of which OpenCV does not
        report the cause.
        """
        self._writer.release()
        written = cv2.VideoCapture(self._name())
        complete = written.get(cv2.CAP_PROP_FRAME_COUNT) == self._frames
        written.release()
        if not complete:
            self._partial.unlink(missing_ok=True)
            raise OSError(
                f'{self.file}: cannot be written. Check the free space and the permissions of its'
                ' folder.'
            )
        os.replace(self._partial, self.file)

    def _name(self) -> str | bytes:
        return opencv_name(absolute_name(self._partial))
