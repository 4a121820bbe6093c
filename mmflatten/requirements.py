"""Required libraries: their versions, the installed versions, and the pip command that fixes a
difference.

Versions come from package metadata, without imports. `requirements/` repeats them for pip, and a
test compares them.
"""

import importlib.util
import logging
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib import metadata


@dataclass(frozen=True)
class Library:
    """A library by its import name."""

    name: str
    distribution: str
    required: str  # older versions are rejected
    tested: str  # installed by `make setup`
    purpose: str
    originals: tuple[str, ...] = ()  # unmaintained distributions that `distribution` replaces
    untested: str | None = None  # this and newer versions cause a warning

    @property
    def install_command(self) -> str:
        """The pip command that installs the tested version."""
        if self.name in ('torch', 'torchvision'):
            return (
                f'pip install torch=={LIBRARIES["torch"].tested}'
                f' torchvision=={LIBRARIES["torchvision"].tested}'
            )
        package = f'{self.distribution}=={self.tested}'
        if self.name == 'mmcv':  # pip's cache may have a wheel that was compiled for another torch
            return (
                f'pip install --no-cache-dir --find-links dist {package} mmcv-torch-ops  # dist:'
                ' make wheels'
            )
        return f'pip install {package}'


LIBRARIES: dict[str, Library] = {
    library.name: library
    for library in (
        Library('torch', 'torch', '>=2.10', '2.15.0', 'everything', untested='2.16'),
        Library(
            'torchvision', 'torchvision', '>=0.25', '0.29.2', 'mmpretrain, mmdet', untested='0.30'
        ),
        Library(
            'numpy', 'numpy', '>=2.0.1', '2.4.6', 'everything except mmflatten.ops', untested='3'
        ),
        Library('einops', 'einops', '>=0.7', '0.8.2', 'everything', untested='1'),
        Library(
            'mmengine',
            'onedl-mmengine',
            '>=0.10.12',
            '0.10.12',
            'models, training',
            ('mmengine', 'mmengine-lite'),
            '0.11',
        ),
        Library('mmcv', 'onedl-mmcv', '>=2.3.6', '2.3.6', 'training', ('mmcv', 'mmcv-full'), '2.4'),
        Library(
            'mmpretrain',
            'onedl-mmpretrain',
            '>=1.3.6',
            '1.3.6',
            'classification',
            ('mmpretrain',),
            '1.4',
        ),
        Library('mmdet', 'onedl-mmdetection', '>=3.5.1', '3.5.1', 'detection', ('mmdet',), '3.6'),
        Library(
            'mmseg',
            'onedl-mmsegmentation',
            '>=1.4.2',
            '1.4.2',
            'segmentation',
            ('mmsegmentation',),
            '1.5',
        ),
    )
}
INSTALL_LAB = (
    'pip install -e lab in a checkout; else make wheels, then pip install --find-links dist'
    ' mmflatten-lab'
)
MIXERS = 'mmflatten.mixers'  # group of entry points: installed packages name their attentions there
CORE = ('torch', 'torchvision', 'numpy', 'einops', 'mmengine')  # every task needs mmcv too


@dataclass(frozen=True)
class Status:
    """State of an installed library: ok, untested, wrong or missing. `problem` and `fix` are empty
    if it is ok.
    """

    state: str
    version: str = ''
    problem: str = ''
    fix: str = ''

    @property
    def message(self) -> str:
        return f'{self.problem}\n    fix it with: {self.fix}'


def inspect(library: Library) -> Status:
    """Compare the installed version of `library`, under either distribution name, with the required
    one.
    """
    required = f'{library.distribution} {library.required} is required'
    found = {
        name: version
        for name in (library.distribution, *library.originals)
        if (version := _installed_version(name))
    }
    if not found:
        spec = importlib.util.find_spec(library.name)
        if spec and spec.origin:  # a source checkout has no metadata, and a plain folder no origin
            return Status('ok', 'unknown')
        return Status(
            'missing',
            '',
            f'{required} for {library.purpose}, none is installed',
            library.install_command,
        )
    installed = ' and '.join(f'{name} {version}' for name, version in found.items())
    fix = library.install_command
    if found.keys() & library.originals:
        fix = f'pip uninstall -y {" ".join(found)} && {fix}'
    version = ', '.join(found.values())
    if len(found) > 1:
        return Status(
            'wrong',
            version,
            f"{installed} overwrite each other's `{library.name}` package; {required}",
            fix,
        )
    if _release(version) < _release(library.required):
        return Status('wrong', version, f'{installed} is installed, {required}', fix)
    transformers = _installed_version('transformers') or ''
    if library.name == 'mmpretrain' and _release(transformers) >= (5,):
        return Status(
            'wrong',
            version,
            f'{installed} cannot be imported beside transformers {transformers}',
            "pip install 'transformers<5'",
        )
    torch = _installed_version('torch')
    # compiled for one torch, since 0.29 for that one and newer ones
    if library.name == 'torchvision' and torch:
        partner = re.search(
            r'torch\s*\(?([=>]=)\s*([\d.]+)', ' '.join(metadata.requires('torchvision') or ())
        )
        if partner and (
            _release(torch) < _release(partner[2])
            or partner[1] == '=='
            and _release(torch) != _release(partner[2])
        ):
            needed = partner[1].removeprefix('==') + partner[2]
            return Status(
                'wrong',
                version,
                f'{installed} is compiled for torch {needed}, not for {torch}',
                fix,
            )
    if library.untested and _release(version) >= _release(library.untested):
        return Status(
            'untested',
            version,
            f'{installed} is above the tested range (below {library.untested})',
            fix,
        )
    return Status('ok', version)


@cache
def check_task(scope: str) -> None:
    """Check the libraries of a task once per process; versions above the tested range log one
    warning.

    Args:
        scope: a config's `default_scope`: 'mmpretrain', 'mmdet', 'mmseg', or 'mmflatten' for
            stereo.

    Raises:
        ImportError: a library is missing, too old, or installed beside the distribution that it
            replaces. The message has the pip commands that fix it.
    """
    found = [inspect(LIBRARIES[name]) for name in (*CORE, 'mmcv', scope) if name in LIBRARIES]
    problems = [status.message for status in found if status.state in ('wrong', 'missing')]
    if problems:
        raise ImportError('\n'.join(['mmflatten cannot use the installed libraries:', *problems]))
    untested = [
        f'{status.problem}; for the tested version: {status.fix}'
        for status in found
        if status.state == 'untested'
    ]
    if untested:
        logging.getLogger('mmflatten').warning(
            'Not tested with these libraries: %s', ' | '.join(untested)
        )


def gpu_problem() -> str:
    """Return one line on GPUs that the installed PyTorch does not find, with the fix; '' if there
    is no problem.
    """
    import torch

    hidden = os.environ.get('CUDA_VISIBLE_DEVICES') in ('', '-1')
    if hidden or shutil.which('nvidia-smi') is None or torch.cuda.is_available():
        return ''
    try:
        gpus = subprocess.run(
            ['nvidia-smi', '-L'], capture_output=True, text=True, timeout=30, check=True
        ).stdout
    except (subprocess.SubprocessError, OSError):
        return ''
    if not gpus.strip():
        return ''
    name, build = gpus.splitlines()[0].partition(' (UUID')[0], torch.version.cuda or 'no CUDA'
    return (
        f'{name}: PyTorch {torch.__version__}, built for {build}, cannot use it. Update the driver,'
        ' or install a PyTorch for it: uv pip install --torch-backend=auto --reinstall-package'
        ' torch --reinstall-package torchvision'
        f' {LIBRARIES["torch"].install_command.removeprefix("pip install ")} (docs/install.md)'
    )


def _installed_version(distribution: str) -> str | None:
    """Return the version of an installed distribution, or None if it is absent or has no readable
    version.
    """
    try:
        return metadata.version(distribution) or None
    # KeyError: a partly removed package without METADATA
    except (metadata.PackageNotFoundError, KeyError):
        return None


def _release(version: str) -> tuple[int, ...]:
    """Return the release numbers in `>=2.5` or `2.5.0+cpu` without trailing zeros, so that 2.5
    equals 2.5.0.
    """
    digits = re.search(r'\d+(\.\d+)*', version)
    return tuple(map(int, re.sub(r'(\.0+)+$', '', digits.group()).split('.'))) if digits else ()
