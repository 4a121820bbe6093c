"""The libraries mmflatten needs: which versions, what is installed, and the pip command that fixes the difference.

Only package metadata is read, so the check costs milliseconds and imports none of the libraries. The files in
`requirements/` repeat the ranges and tested versions for pip; `tests/test_install` keeps both equal.
"""
import importlib.util
import re
from dataclasses import dataclass
from importlib import metadata

BUILD_TOOLS = "pip install 'setuptools>=80,<82' wheel ninja psutil packaging"


@dataclass(frozen=True)
class Library:
    """A library by its import name; `original` is the unmaintained distribution that `distribution` replaces."""

    name: str
    distribution: str
    required: str
    tested: str
    purpose: str
    original: str | None = None

    @property
    def install_command(self) -> str:
        """The pip command that installs the tested version."""
        if self.name in ('torch', 'torchvision'):
            return f"pip install torch=={LIBRARIES['torch'].tested} torchvision=={LIBRARIES['torchvision'].tested}"
        install = f'pip install {self.distribution}=={self.tested}'
        if self.name == 'mmcv':  # sources only, and its build has to see the installed torch
            return f'{BUILD_TOOLS} && {install.replace("install", "install --no-build-isolation")}'
        return install


LIBRARIES: dict[str, Library] = {library.name: library for library in (
    Library('torch', 'torch', '>=2.4,<2.14', '2.12.1', 'everything'),
    Library('torchvision', 'torchvision', '>=0.19,<0.29', '0.27.1', 'mmpretrain, mmdet'),
    Library('numpy', 'numpy', '>=2.0.1,<3', '2.2.6', 'everything but mmflatten.ops'),
    Library('einops', 'einops', '>=0.7,<1', '0.8.2', 'models'),
    Library('mmengine', 'onedl-mmengine', '>=0.10.12,<0.11', '0.10.12', 'models, training', 'mmengine'),
    Library('mmcv', 'onedl-mmcv', '>=2.3.6,<2.4', '2.3.6', 'models, training', 'mmcv'),
    Library('mmpretrain', 'onedl-mmpretrain', '>=1.3.6,<1.4', '1.3.6', 'classification', 'mmpretrain'),
    Library('mmdet', 'onedl-mmdetection', '>=3.5.1,<3.6', '3.5.1', 'detection', 'mmdet'),
    Library('mmseg', 'onedl-mmsegmentation', '>=1.4.2,<1.5', '1.4.2', 'segmentation', 'mmsegmentation'),
)}


CORE = ('torch', 'torchvision', 'numpy', 'einops', 'mmengine', 'mmcv')


@dataclass(frozen=True)
class Status:
    """What was found of a library: `state` is ok, wrong or missing; `problem` and `fix` are empty when ok."""

    state: str
    version: str = ''
    problem: str = ''
    fix: str = ''

    @property
    def message(self) -> str:
        return f'{self.problem}\n    fix it with: {self.fix}'


def installed_version(distribution: str) -> str | None:
    """Version of an installed distribution, or None; a distribution without a readable version counts as absent."""
    try:
        return metadata.version(distribution) or None
    except (metadata.PackageNotFoundError, KeyError):  # KeyError: a half-removed package without its METADATA
        return None


def admits(required: str, version: str) -> bool:
    """Whether `version` lies in a range such as `>=2.4,<2.14`; builds like 2.12.1+cpu count as 2.12.1."""
    here = _release(version)
    for bound in required.split(','):
        sign, limit = re.fullmatch(r'(>=|<)(.+)', bound).groups()
        if (here >= _release(limit)) != (sign == '>='):
            return False
    return True


def inspect(library: Library) -> Status:
    """Compare what is installed of `library`, under either distribution name, with what is required."""
    found = {name: installed_version(name) for name in (library.distribution, library.original) if name}
    found = {name: version for name, version in found.items() if version}
    if len(found) > 1:
        both = ' and '.join(f'{name} {version}' for name, version in found.items())
        return Status('wrong', ', '.join(found.values()), f'{both} are installed side by side and overwrite each '
                      f"other's `{library.name}` package; only {library.distribution} {library.required} is required",
                      f"pip uninstall -y {' '.join(found)} && {library.install_command}")
    for name, version in found.items():
        if not admits(library.required, version):
            remove = f'pip uninstall -y {name} && ' if name == library.original else ''
            return Status('wrong', version, f'{library.name} {version} (distribution {name}) is installed, '
                          f'{library.distribution} {library.required} is required', remove + library.install_command)
    if found:
        return _torch_partner(library, *found.values())
    spec = importlib.util.find_spec(library.name)
    if spec and spec.origin:  # a source checkout on the path carries no metadata; a bare folder has no origin
        return Status('ok', 'unknown')
    return Status('missing', '', f'{library.name} is not installed, {library.distribution} {library.required} is required '
                  f'(for {library.purpose})', library.install_command)


def require(*names: str) -> None:
    """Raise ImportError, with the pip commands that fix it, unless every named library is there and fits.

    Args:
        names: import names, such as `'mmdet'`.
    """
    problems = [status.message for status in (inspect(LIBRARIES[name]) for name in names) if status.state != 'ok']
    if problems:
        raise ImportError('\n'.join(['mmflatten cannot work with the libraries installed here:', *problems]))


def check_task(scope: str) -> None:
    """Check the libraries of a task, once, where a tool starts.

    Args:
        scope: a config's `default_scope`: 'mmpretrain', 'mmdet', 'mmseg', or 'mmflatten' for stereo.

    Raises:
        ImportError: a library is missing, too old, or installed beside the distribution that it replaces.
    """
    require(*CORE, *(name for name in (scope,) if name in LIBRARIES))


def _release(version: str) -> tuple[int, ...]:
    """Release numbers without trailing zeros, so that 2.4 equals 2.4.0."""
    digits = re.match(r'\d+(\.\d+)*', version)
    numbers = [int(part) for part in digits.group().split('.')] if digits else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _torch_partner(library: Library, version: str) -> Status:
    """Each torchvision is compiled for one torch, named in its metadata; another one makes its import fail."""
    torch = installed_version('torch')
    if library.name == 'torchvision' and torch:
        wanted = re.search(r'torch\s*\(?==\s*([\d.]+)', ' '.join(metadata.requires('torchvision') or ()))
        if wanted and _release(wanted.group(1)) != _release(torch):
            return Status('wrong', version, f'torchvision {version} is compiled for torch {wanted.group(1)}, '
                          f'torch {torch} is installed', library.install_command)
    return Status('ok', version)
