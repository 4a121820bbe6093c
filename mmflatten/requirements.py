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
    def need(self) -> str:
        return f'{self.distribution} {self.required} is required'

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


_LIBRARIES = (
    Library(
        name='torch',
        distribution='torch',
        required='>=2.10',
        tested='2.15.0',
        purpose='everything',
        untested='2.16',
    ),
    Library(
        name='torchvision',
        distribution='torchvision',
        required='>=0.25',
        tested='0.29.2',
        purpose='mmpretrain, mmdet',
        untested='0.30',
    ),
    Library(
        name='numpy',
        distribution='numpy',
        required='>=2.0.1',
        tested='2.4.6',
        purpose='everything except mmflatten.ops',
        untested='3',
    ),
    Library(
        name='einops',
        distribution='einops',
        required='>=0.7',
        tested='0.8.2',
        purpose='everything',
        untested='1',
    ),
    Library(
        name='mmengine',
        distribution='onedl-mmengine',
        required='>=0.10.12',
        tested='0.10.12',
        purpose='models, training',
        originals=('mmengine', 'mmengine-lite'),
        untested='0.11',
    ),
    Library(
        name='mmcv',
        distribution='onedl-mmcv',
        required='>=2.3.6',
        tested='2.3.6',
        purpose='training',
        originals=('mmcv', 'mmcv-full'),
        untested='2.4',
    ),
    Library(
        name='mmpretrain',
        distribution='onedl-mmpretrain',
        required='>=1.3.6',
        tested='1.3.6',
        purpose='classification',
        originals=('mmpretrain',),
        untested='1.4',
    ),
    Library(
        name='mmdet',
        distribution='onedl-mmdetection',
        required='>=3.5.1',
        tested='3.5.1',
        purpose='detection',
        originals=('mmdet',),
        untested='3.6',
    ),
    Library(
        name='mmseg',
        distribution='onedl-mmsegmentation',
        required='>=1.4.2',
        tested='1.4.2',
        purpose='segmentation',
        originals=('mmsegmentation',),
        untested='1.5',
    ),
)
LIBRARIES = {library.name: library for library in _LIBRARIES}
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
    found = _installed_distributions(library)
    if not found:
        return _without_metadata(library)
    version = ', '.join(found.values())
    installed = ' and '.join(f'{name} {number}' for name, number in found.items())
    fix = library.install_command
    if found.keys() & library.originals:
        fix = f'pip uninstall -y {" ".join(found)} && {fix}'
    if len(found) > 1:
        problem = f"{installed} overwrite each other's `{library.name}` package; {library.need}"
    elif _release(version) < _release(library.required):
        problem = f'{installed} is installed, {library.need}'
    else:
        problem, fix = _conflict(library, installed, fix)
    if problem:
        return Status(state='wrong', version=version, problem=problem, fix=fix)
    if library.untested and _release(version) >= _release(library.untested):
        problem = f'{installed} is above the tested range (below {library.untested})'
        return Status(state='untested', version=version, problem=problem, fix=fix)
    return Status('ok', version)


def _installed_distributions(library: Library) -> dict[str, str]:
    """Return the version of each installed distribution of a library."""
    found = {}
    for name in (library.distribution, *library.originals):
        version = _installed_version(name)
        if version:
            found[name] = version
    return found


def _without_metadata(library: Library) -> Status:
    spec = importlib.util.find_spec(library.name)
    if spec and spec.origin:  # a source checkout has no metadata, and a plain folder no origin
        return Status('ok', 'unknown')
    return Status(
        state='missing',
        problem=f'{library.need} for {library.purpose}, none is installed',
        fix=library.install_command,
    )


def _conflict(library: Library, installed: str, fix: str) -> tuple[str, str]:
    """Return the problem of a library with another one, '' if there is none, and its fix."""
    if library.name == 'torchvision':
        return _problem_of_torchvision(installed), fix
    transformers = _installed_version('transformers') or ''
    if library.name == 'mmpretrain' and _release(transformers) >= (5,):
        problem = f'{installed} cannot be imported beside transformers {transformers}'
        return problem, "pip install 'transformers<5'"
    return '', fix


def _problem_of_torchvision(installed: str) -> str:
    """Compare torchvision with torch. It is compiled for one version, and since 0.29 for newer ones
    too.
    """
    torch = _installed_version('torch')
    requirements = ' '.join(metadata.requires('torchvision') or ())
    partner = re.search(r'torch\s*\(?([=>]=)\s*([\d.]+)', requirements)
    if not torch or not partner:
        return ''
    relation, needed = partner.groups()
    if relation == '==':
        fits = _release(torch) == _release(needed)
    else:
        fits = _release(torch) >= _release(needed)
        needed = f'>={needed}'
    return '' if fits else f'{installed} is compiled for torch {needed}, not for {torch}'


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
    name, _, _ = gpus.splitlines()[0].partition(' (UUID')
    build = torch.version.cuda or 'no CUDA'
    packages = LIBRARIES['torch'].install_command.removeprefix('pip install ')
    return (
        f'{name}: PyTorch {torch.__version__}, built for {build}, cannot use it. Update the driver,'
        ' or install a PyTorch for it: uv pip install --torch-backend=auto --reinstall-package'
        f' torch --reinstall-package torchvision {packages} (docs/install.md)'
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
    if not digits:
        return ()
    significant = re.sub(r'(\.0+)+$', '', digits.group())
    return tuple(int(number) for number in significant.split('.'))
