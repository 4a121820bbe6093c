"""Make the virtual environment and install everything pinned, in the order that works; what is done is skipped.

`make setup` calls it as `python requirements/install.py [VENV]`. Once a step is through, it leaves a fingerprint of the
files it read in `VENV/installed.json`: a second call skips it, and a changed requirement or a moved tree repeats it.
"""
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / 'requirements' / 'constraints.txt'
EVERYTHING = tuple(f'requirements/{name}.txt'
                   for name in ('runtime', 'cls', 'det', 'seg', 'demo', 'analyze', 'export', 'report', 'app', 'study',
                                'docs', 'browser', 'tests'))
DISK_GB = 11  # the environment takes 7, the downloads and the compile the rest
# Settings of the caller that would send packages elsewhere, or count foreign ones as installed.
FOREIGN_SETTINGS = ('PIP_USER', 'PIP_TARGET', 'PIP_PREFIX', 'PIP_ROOT', 'PIP_NO_DEPS', 'PYTHONPATH', 'PYTHONHOME')
OPS_PROBE = ('import torch; from mmcv.ops import nms, get_compiling_cuda_version; '
             'nms(torch.tensor([[0., 0, 9, 9]]), torch.ones(1), 0.5); print(get_compiling_cuda_version())')
GPU_PROBE = ('import torch; from torch.utils.cpp_extension import CUDA_HOME; '
             'print("nogpu" if not torch.cuda.is_available() else "gpu" if CUDA_HOME else "gpu-without-nvcc")')


class InstallError(Exception):
    """A step that did not go through, with what to do about it."""


class Environment:
    """A virtual environment and what has been installed into it so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / 'bin' / 'python'
        self.record = folder / 'installed.json'
        self.settings = {key: value for key, value in os.environ.items() if key not in FOREIGN_SETTINGS}

    def make(self) -> None:
        """Make the environment; one whose Python or pip does not run is made anew."""
        if self.probe('import pip, sys; assert sys.version_info >= (3, 10)') is not None:
            return
        say(f'Making {self.folder.name}, which is not there or does not work')
        base = getattr(sys, '_base_executable', None) or sys.executable
        if subprocess.run([base, '-m', 'venv', '--clear', str(self.folder)]).returncode:
            raise InstallError(f'{base} cannot make a virtual environment; on Debian and Ubuntu: '
                               'apt-get install python3-venv python3-dev')

    def probe(self, code: str) -> str | None:
        """What `code` prints in the environment, without white space around it; None where it fails."""
        try:
            done = subprocess.run([self.python, '-c', code], env=self.settings, cwd=self.folder, text=True,
                                  capture_output=True)
        except OSError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    def pip_command(self, *arguments: str) -> list[str]:
        pip = [str(self.python), '-m', 'pip', 'install', '--disable-pip-version-check', '-c', str(CONSTRAINTS)]
        return [*pip, *arguments]

    def pip_install(self, *arguments: str) -> None:
        if subprocess.run(self.pip_command(*arguments), env=self.settings, cwd=ROOT).returncode:
            raise InstallError('pip did not get through (see above); the next call goes on from this step')

    def must_work(self, code: str, what: str) -> None:
        if self.probe(code) is None:
            raise InstallError(f"{what}; see: {self.python} -c '{code}'")

    def done(self) -> dict[str, str]:
        """Fingerprints of the finished steps; an unreadable record means none."""
        try:
            return dict(json.loads(self.record.read_text()))
        except (OSError, ValueError):
            return {}

    def finish(self, step: str, fingerprint: str) -> None:
        aside = self.record.with_suffix('.new')
        aside.write_text(json.dumps({**self.done(), step: fingerprint}, indent=1))
        aside.replace(self.record)


def say(text: str) -> None:
    print(f'>> {text}', flush=True)


def clock(seconds: float) -> str:
    return f'{int(seconds) // 60}:{int(seconds) % 60:02d}'


def pinned(*names: str) -> list[str]:
    """`name==version` lines of the constraints file."""
    return [line for line in CONSTRAINTS.read_text().splitlines() if line.split('==')[0] in names]


def install_torch(env: Environment) -> None:
    env.pip_install(*pinned('torch', 'torchvision', 'numpy'))
    env.must_work('import torch, torchvision.ops', 'torch and torchvision are installed but do not import together')


def install_mmcv(env: Environment) -> None:
    """Compile onedl-mmcv against the torch just installed; a wheel from pip's cache is checked, not trusted."""
    gpu = env.probe(GPU_PROBE)
    if gpu == 'gpu-without-nvcc':
        say('Warning: there is a GPU but no nvcc (CUDA toolkit): the ops of mmcv are compiled for the CPU only, '
            'which is not enough to train detectors on the GPU')
        env.settings['CUDA_VISIBLE_DEVICES'] = ''
    command = env.pip_command('-v', '--no-build-isolation', *pinned('onedl-mmcv'))
    compile_with_progress(env, [*command, *pinned('onedl-mmengine')])
    cuda = env.probe(OPS_PROBE)
    if cuda is None or (gpu == 'gpu' and cuda == 'not available'):
        say('The ops of mmcv were compiled for another torch, or without a GPU: compiling anew')
        compile_with_progress(env, [*command, '--no-cache-dir', '--force-reinstall', '--no-deps'])
    env.must_work(OPS_PROBE, 'onedl-mmcv was compiled, but its ops do not import')


def compile_with_progress(env: Environment, command: list[str]) -> None:
    """Run pip, keep its output in a file, and show how many files are compiled and how long the rest may take."""
    log = env.folder / 'mmcv_build.log'
    # CPPFLAGS is appended to Python's own compiler flags, where CFLAGS would replace them. Without debug information,
    # which Python's flags ask for, a file takes about 40 % less time.
    settings = {'MAX_JOBS': str(compile_jobs()), **env.settings, 'PYTHONUNBUFFERED': '1',
                'CPPFLAGS': f"{env.settings.get('CPPFLAGS', '')} -g0".strip()}
    start = shown = 0.
    with log.open('w') as file, subprocess.Popen(command, env=settings, cwd=ROOT, text=True, errors='replace',
                                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in process.stdout:
            file.write(line)
            if step := re.match(r'\s*\[(\d+)/(\d+)\]', line):
                done, total, now = int(step[1]), int(step[2]), time.monotonic()
                start, shown = start or now, shown or now  # the clock starts with the compile, not with the download
                if now - shown >= 5 or done == total:
                    print(f'   {done:3d} of {total} files compiled, {clock(now - start)} so far, '
                          f'about {clock((now - start) / done * (total - done))} left', flush=True)
                    shown = now
            elif re.match(r'\s*(Collecting|Downloading|Using cached|Building wheel|Successfully|ERROR)', line):
                print('   ' + line.strip()[:116], flush=True)
    if process.returncode:
        tail = '\n'.join(log.read_text(errors='replace').splitlines()[-25:])
        raise InstallError(f'{tail}\n\nonedl-mmcv did not compile; the whole output: {log}\nA C++ compiler and '
                           'Python.h are required; on Debian and Ubuntu: apt-get install g++ python3-dev')


def compile_jobs() -> int:
    """One compiler for each core, but at most one for each 2 GB of memory, which is what a file can take."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1
    memory_gb = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2 ** 30
    return max(1, min(cores, int(memory_gb // 2)))


def install_rest(env: Environment) -> None:
    env.pip_install(*(argument for file in EVERYTHING for argument in ('-r', file)))
    if env.probe('import cv2') is None:
        say('opencv-python does not import (it needs the libGL of a desktop): putting its headless build in its place')
        env.pip_install('--force-reinstall', '--no-deps', *pinned('opencv-python-headless'))
        env.must_work('import cv2', 'opencv does not import')


def install_deepspeed(env: Environment) -> None:
    """Beside the other packages, for the tests alone: where MMEngine finds DeepSpeed, every process imports it."""
    env.pip_install('--quiet', '--upgrade', '--no-deps', '--target', str(env.folder / 'deepspeed'),
                    *pinned('deepspeed', 'hjson', 'py-cpuinfo'))


# Name, what it does, what is said of it, and the files that it depends on.
STEPS = (
    ('build tools', lambda env: env.pip_install('--upgrade', '-r', 'requirements/build.txt'), 'pip, setuptools, ninja',
     ('requirements/build.txt',)),
    ('torch', install_torch, 'torch and torchvision: the large download', ('requirements/runtime.txt',)),
    ('mmcv', install_mmcv, 'mmengine and mmcv. mmcv comes as source: compiling it takes 5 to 6 minutes on 2 cores, '
     'longer with a GPU; seconds where pip has it in its cache', ('requirements/runtime.txt',)),
    ('rest', install_rest, 'mmpretrain, mmdet, mmseg and the test tools', EVERYTHING),
    ('deepspeed', install_deepspeed, 'DeepSpeed, for the tests', ('requirements/deepspeed.txt',)),
    ('project', lambda env: env.pip_install('--quiet', '--no-deps', '--no-build-isolation', '-e', '.'),
     'mmflatten itself, editable', ('setup.py', 'pyproject.toml', 'mmflatten/version.py')),
)


def fingerprint(files: tuple[str, ...], python: str) -> str:
    """Hash of what a step depends on: its files, the pins, the Python release and the place of the tree."""
    content = b''.join((ROOT / name).read_bytes() for name in (*files, 'requirements/constraints.txt'))
    return hashlib.sha256(f'{ROOT} {python} '.encode() + content).hexdigest()


def install(env: Environment) -> None:
    """Run every step that is not done yet."""
    free_gb = shutil.disk_usage(env.folder.parent).free / 2 ** 30
    if not env.done() and free_gb < DISK_GB:
        say(f'Warning: {free_gb:.1f} GB of disk are free, about {DISK_GB} are required')
    env.make()
    python, start = env.probe('import sys; print(sys.version)') or '', time.monotonic()
    for number, (name, action, announcement, files) in enumerate(STEPS, 1):
        mark = fingerprint(files, python)
        if env.done().get(name) != mark:
            say(f'[{number}/{len(STEPS)}] {announcement}')
            action(env)
            env.finish(name, mark)
            say(f'[{number}/{len(STEPS)}] done after {clock(time.monotonic() - start)}')


def main() -> int:
    folder = ROOT / (sys.argv[1] if len(sys.argv) > 1 else '.venv')
    try:
        with folder.with_name(f'{folder.name}.lock').open('w') as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say('Another set-up is running here: waiting for it')
                fcntl.flock(lock, fcntl.LOCK_EX)
            install(Environment(folder))
    except InstallError as error:
        say(f'Set-up failed: {error}')
        return 1
    except KeyboardInterrupt:
        say('Set-up interrupted; the next call goes on from this step')
        return 130
    return 0


if __name__ == '__main__':
    sys.exit(main())
