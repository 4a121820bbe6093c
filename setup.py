"""Build of the wheel: configs, tools and the model index go to `mmflatten/.mim`, as in OpenMMLab's
packages.

Everything else is in `pyproject.toml`. The same sources give the same bytes, whatever the time and
the umask.
"""

import os
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDERS = ('configs', 'tools/analysis', 'tools/dataset')


def mim_files() -> list[Path]:
    """Files that a wheel carries in `.mim`: what users run, without the scripts of
    `tools/maintain`.
    """
    files = [path for folder in FOLDERS for path in Path(folder).rglob('*') if path.is_file()]
    tools = [path for path in Path('tools').iterdir() if path.is_file()]
    return sorted(
        path
        for path in (*files, *tools, Path('model-index.yml'))
        if '__pycache__' not in path.parts
    )


class BuildPyWithMim(build_py):
    """Copy the files of `mim_files`, except for an editable installation, which reads them in the
    checkout.
    """

    def run(self) -> None:
        super().run()
        for path in () if self.editable_mode else mim_files():
            target = Path(self.build_lib, 'mmflatten', '.mim', path)
            self.mkpath(str(target.parent))
            self.copy_file(str(path), str(target), preserve_mode=False)


os.environ.setdefault('SOURCE_DATE_EPOCH', '315532800')  # 1980, the first year of zip archives
os.umask(0o022)
setup(cmdclass={'build_py': BuildPyWithMim})
