"""Make the virtual environment and install everything pinned: `python requirements/install.py [VENV]`.

uv is several times faster than pip and skips what is installed. It also does not read pip's cache of wheels, which may
hold an mmcv compiled for another PyTorch.
"""
import csv
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = 'uv==0.13.9'
DISK_GB = 9  # the environment takes 7.5 GB
# Variables of the caller that would install packages elsewhere, take others for installed, or compile mmcv.
FOREIGN_SETTINGS = ('PIP_USER', 'PIP_TARGET', 'PIP_PREFIX', 'PIP_ROOT', 'PIP_NO_DEPS', 'PYTHONPATH', 'PYTHONHOME',
                    'UV_NO_BUILD_ISOLATION', 'UV_SYSTEM_PYTHON', 'UV_OVERRIDE', 'UV_CONSTRAINT', 'UV_NO_EDITABLE',
                    'UV_WORKING_DIR', 'UV_REQUIRE_HASHES')
PIP_SETTINGS = {'index-url': 'UV_DEFAULT_INDEX', 'cert': 'SSL_CERT_FILE'}
PINS = ('-c', 'requirements/constraints.txt')
TRY_MMCV = 'import torch; from mmcv.ops import nms; nms(torch.tensor([[0., 0, 9, 9]]), torch.ones(1), .5); print(1)'


class SetupError(Exception):
    """A step failed; the message gives the fix."""


class Environment:
    """A virtual environment, and the commands that run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / 'bin' / 'python'
        self.variables = {key: value for key, value in os.environ.items() if key not in FOREIGN_SETTINGS}

    def run(self, *command: str) -> bool:
        """Run Python in the environment; True if it succeeds."""
        try:
            return subprocess.run([self.python, *command], env=self.variables, cwd=ROOT).returncode == 0
        except OSError:
            return False

    def output(self, *command: str) -> str:
        """Output of Python in the environment, '' if it fails."""
        try:
            return subprocess.run([self.python, *command], env=self.variables, cwd=ROOT, text=True, check=True,
                                  capture_output=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return ''

    def create(self) -> None:
        """Make the environment with uv in it. One that does not work, or whose Python is too old, is made anew."""
        works = self.output('-c', 'import sys; print(sys.version_info >= (3, 11))') == 'True'
        if works and self.output('-m', 'uv', '--version').startswith(UV.replace('==', ' ')):
            return
        if not works or not self.output('-m', 'pip', '--version'):
            if self.folder.exists() and any(self.folder.iterdir()) and not (self.folder / 'pyvenv.cfg').exists():
                raise SetupError(f'{self.folder} is not a virtual environment. Remove it, or name another: VENV=.venv2')
            say(f'Making {self.folder.name}')
            base = getattr(sys, '_base_executable', None) or sys.executable
            if subprocess.run([base, '-m', 'venv', '--clear', self.folder], env=self.variables).returncode:
                raise SetupError(f'{base} cannot make a virtual environment. On Debian and Ubuntu: '
                                 'apt-get install python3-venv')
        if not self.run('-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', UV):
            raise SetupError(f'pip could not install {UV} (see above)')

    def forget_partial_packages(self) -> None:
        """Delete the metadata of packages that an interruption left in part, so that uv installs them again."""
        for info in self.folder.glob('lib/*/site-packages/*.dist-info'):
            try:
                rows = csv.reader((info / 'RECORD').read_text(encoding='utf-8').splitlines())
                files = [row[0] for row in rows if row]
            except OSError:
                files = ['RECORD']
            if not all((info.parent / file).exists() for file in files):
                shutil.rmtree(info)

    def install(self, *arguments: str) -> None:
        """Install with uv, which takes pip's index and certificate unless it has settings of its own."""
        settings = dict(line.partition('=')[::2] for line in self.output('-m', 'pip', 'config', 'list').splitlines())
        for section in (':env:', 'install', 'global'):  # in pip's order of precedence
            for name, variable in PIP_SETTINGS.items():
                if value := settings.get(f'{section}.{name}'):
                    self.variables.setdefault(variable, value.strip('\'"'))
        if not self.run('-m', 'uv', 'pip', 'install', '--python', str(self.python), *PINS, *arguments):
            raise SetupError('uv could not install the packages (see above). The next call continues.')


def say(text: str) -> None:
    print(f'>> {text}', flush=True)


def install(env: Environment) -> None:
    """Bring the environment to the pinned versions."""
    free_gb = shutil.disk_usage(env.folder.parent).free / 2 ** 30
    if not env.folder.exists() and free_gb < DISK_GB:
        say(f'Warning: {free_gb:.1f} GB of disk are free, about {DISK_GB} are required')
    env.create()
    env.forget_partial_packages()
    env.install('--override', 'requirements/overrides.txt', '-r', 'requirements/setup.txt')
    if any(env.folder.glob('lib/*/site-packages/mmcv/_ext.*.so')) and not env.output('-c', TRY_MMCV):
        say('mmcv was compiled for another PyTorch: replacing it by one that is not compiled')
        env.install('--no-cache', '--no-deps', '--reinstall-package', 'onedl-mmcv', 'onedl-mmcv')
    if problem := env.output('-c', 'from mmflatten.requirements import gpu_problem; print(gpu_problem())'):
        say(problem)


def main() -> int:
    folder = ROOT / (sys.argv[1] if len(sys.argv) > 1 else '.venv')
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_name(f'{folder.name}.lock').open('w') as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say('Another set-up is running: waiting for it')
                fcntl.flock(lock, fcntl.LOCK_EX)
            install(Environment(folder))
    except (SetupError, OSError) as error:
        say(f'Set-up failed: {error}')
        return 1
    except KeyboardInterrupt:
        say('Set-up interrupted. The next call continues.')
        return 130
    return 0


if __name__ == '__main__':
    sys.exit(main())
