"""Rows of a table that are on the disk as soon as they are added."""

import os
from pathlib import Path
from typing import BinaryIO


class Rows:
    """Lines of a file that other processes can read at once, and that the end of this process does
    not lose.

    A line that cannot be written whole leaves nothing in the file, so that a full disk costs this
    line only.

    Attributes:
        path: the file, which begins with the first line.
        count: number of lines added.
        lost: number of lines that could not be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = self.lost = 0
        self._file: BinaryIO | None = None
        self._size = 0

    def add(self, text: str) -> None:
        """Add text that ends with a line break. Raises OSError if it cannot be written."""
        try:
            self._write(text.encode('utf-8', 'surrogateescape'))  # file names need not be UTF-8
        except OSError:
            self.lost += 1
            raise
        self.count += 1

    def _write(self, content: bytes) -> None:
        if self._file is None:
            self.path.unlink(missing_ok=True)
            self._file = open(self.path, 'ab', buffering=0)
        try:
            written = 0
            while written < len(content):  # a write may end early, when the disk is nearly full
                written += self._file.write(content[written:])
        except OSError as error:
            os.ftruncate(self._file.fileno(), self._size)
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._size += len(content)

    def close(self) -> None:
        """Flush the lines to the disk."""
        if self._file is None:
            return
        os.ftruncate(self._file.fileno(), self._size)  # an interrupt may have left a part of a line
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None
