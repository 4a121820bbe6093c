"""Reading of local files by MMEngine, and so by the data sets and transforms of OpenMMLab: regular
files alone.

Importing this module registers the backend in place of MMEngine's, which would wait for a pipe
without end.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from mmengine.fileio import LocalBackend, register_backend

from mmflatten.files import UnusableFile, problem_of, read_bytes


@register_backend('local', prefixes='', force=True)
class RegularFiles(LocalBackend):
    """MMEngine's backend of local files, which refuses pipes and devices with an UnusableFile."""

    def get(self, filepath: str | Path) -> bytes:
        return read_bytes(filepath, sys.maxsize)

    def get_text(self, filepath: str | Path, encoding: str = 'utf-8') -> str:
        return self.get(filepath).decode(encoding)

    @contextlib.contextmanager
    def get_local_path(self, filepath: str | Path) -> Iterator[str | Path]:
        """Yield the path. Libraries open it themselves, such as pycocotools; that of a folder is
        theirs to refuse.
        """
        problem = problem_of(filepath, sys.maxsize)
        if problem is not None and os.path.exists(filepath) and not os.path.isdir(filepath):
            raise UnusableFile(f'{filepath} {problem}.')
        yield filepath
