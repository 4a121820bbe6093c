"""MMEngine's backend of local files, restricted to regular files. The data sets and transforms of
OpenMMLab read through it.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from mmengine.fileio import LocalBackend, register_backend

from mmflatten.untrusted.files import UnusableFile, problem_of, read_bytes


def register_regular_files() -> None:
    """Replace MMEngine's backend of local files, which blocks on a pipe. A second call has no
    effect.
    """
    register_backend('local', RegularFiles, force=True, prefixes='')


class RegularFiles(LocalBackend):
    """MMEngine's backend of local files, which refuses pipes and devices with an UnusableFile."""

    def get(self, filepath: str | Path) -> bytes:
        return read_bytes(filepath, sys.maxsize)

    def get_text(self, filepath: str | Path, encoding: str = 'utf-8') -> str:
        return self.get(filepath).decode(encoding)

    @contextlib.contextmanager
    def get_local_path(self, filepath: str | Path) -> Iterator[str | Path]:
        """Yield the path, which a library such as pycocotools opens itself.

        A missing path and a folder pass, because the library reports them.
        """
        problem = problem_of(filepath, sys.maxsize)
        if problem is not None and os.path.exists(filepath) and not os.path.isdir(filepath):
            raise UnusableFile(f'{filepath} {problem}.')
        yield filepath
