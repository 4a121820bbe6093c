"""Install the built wheels into empty environments, and run the first commands of the README:

    make dists
    python tools/maintain/try_wheels.py --python 3.11 3.12 3.13

Each environment gets mmflatten with one extra, mmflatten from its source distribution, or
mmflatten-lab, from the files in `dist/` and the package registry, and is deleted afterwards. uv
must be installed. An environment takes up to 8 GB of disk while it exists.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UV = [sys.executable, '-m', 'uv']
HIDDEN = ('PYTHONPATH', 'VIRTUAL_ENV', 'CI')

BACKBONE = """
import torch
from mmflatten.models.backbones import FLattenSwin
print([tuple(out.shape) for out in FLattenSwin('tiny')(torch.rand(1, 3, 70, 50))])
"""
TIMM = """
import timm, torch
import mmflatten.timm
print(timm.create_model('flatten_swin_tiny', num_classes=5)(torch.rand(1, 3, 64, 64)).shape)
"""
PACKAGED = """
import numpy
from mmflatten.apis import from_pretrained
image = numpy.zeros((40, 40, 3), numpy.uint8)
print(from_pretrained('garment-classifier')(image))
"""
QUICK = [
    'train_cfg.max_epochs=1',
    'train_dataloader.num_workers=0',
    'train_dataloader.persistent_workers=False',
    'val_dataloader.num_workers=0',
    'val_dataloader.persistent_workers=False',
]
DETECTOR = 'mask-rcnn_flatten-swin-nano_fpn_digits'
RUN = f'work_dirs/{DETECTOR}'
FIRST = [
    ['mmflatten', '--version'],
    ['mmflatten', 'models', '*nano_digits'],
    ['python', '-c', BACKBONE],
    ['mmflatten', 'doctor'],
]
FLOPS = ['mmflatten', 'flops']
SOURCE = 'source'
LAB = 'lab'
# What is installed -> commands. '' is an installation without extras.
COMMANDS: dict[str, list[list[str]]] = {
    '': FIRST,
    SOURCE: FIRST,
    LAB: [*FIRST, ['mmflatten', 'study', '--help'], ['mmflatten', 'fingerprint', '--help']],
    'timm': [*FIRST, ['python', '-c', TIMM]],
    'cls': [*FIRST, ['python', '-c', PACKAGED], [*FLOPS, 'flatten-swin-nano_digits']],
    'det': [*FIRST, [*FLOPS, DETECTOR]],
    'seg': [*FIRST, [*FLOPS, 'upernet_flatten-swin-nano_digits']],
    'stereo': [*FIRST, [*FLOPS, 'psmnet-tiny_digits-stereo']],
    'all': [
        *FIRST,
        ['mmflatten', 'data', 'digits', '--train', '8', '--val', '4', '--size', '96'],
        ['mmflatten', 'train', DETECTOR, '--cfg-options', *QUICK],
        ['mmflatten', 'test', DETECTOR, f'{RUN}/epoch_1.pth', '--out', 'results.pkl'],
        [
            'mmflatten',
            'predict',
            DETECTOR,
            f'{RUN}/epoch_1.pth',
            'data/digits/images/validation',
            '--out',
            'out',
        ],
        ['mmflatten', 'report', RUN, '--out', 'report.html'],
    ],
}


@dataclass(frozen=True)
class Outcome:
    """Result of one environment; `problem` is empty if all commands succeeded."""

    python: str
    extra: str
    seconds: float
    torch: str
    problem: str = ''


def try_extra(python: str, extra: str, wheels: Path) -> Outcome:
    """Install a key of `COMMANDS` into an empty environment of a Python, and run its commands."""
    start = time.monotonic()
    torch = problem = ''
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = folder / 'env'
        target = ['--python', str(environment)]
        try:
            _run(
                [*UV, 'venv', '-q', '--no-python-downloads', '--python', python, str(environment)],
                folder,
            )
            install = [*UV, 'pip', 'install', '-q', *target, '--find-links', str(wheels)]
            _run([*install, *_refresh(wheels), *_requirement(extra)], folder)
            torch = _version_of_torch(target)
            for command in COMMANDS[extra]:
                _run([str(environment / 'bin' / command[0]), *command[1:]], folder)
        except subprocess.CalledProcessError as error:
            words = ' '.join(Path(word).name for word in error.cmd[:3])
            problem = f'{words}: {(error.stdout or "").strip()[-2000:]}'
    return Outcome(python, extra, time.monotonic() - start, torch, problem)


def _requirement(extra: str) -> list[str]:
    """Return the arguments of `pip install` for one of `COMMANDS`."""
    if extra == SOURCE:
        return ['--no-binary', 'mmflatten', 'mmflatten']
    if extra == LAB:
        return ['mmflatten-lab']
    return [f'mmflatten[{extra}]'] if extra else ['mmflatten']


def _refresh(wheels: Path) -> list[str]:
    """Return options without which uv installs an earlier wheel of the same version, from its
    cache.
    """
    options = []
    for wheel in wheels.glob('*.whl'):
        options += ['--refresh-package', wheel.name.partition('-')[0]]
    return options


def _run(command: Sequence[str], folder: Path) -> str:
    variables = {name: value for name, value in os.environ.items() if name not in HIDDEN}
    done = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.stdout


def _version_of_torch(target: Sequence[str]) -> str:
    listed = _run([*UV, 'pip', 'show', *target, 'torch'], ROOT)
    versions = [line for line in listed.splitlines() if line.startswith('Version:')]
    return versions[0].removeprefix('Version:').strip()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--python', nargs='+', default=['3.11', '3.12', '3.13'], metavar='3.N')
    parser.add_argument('--extras', nargs='+', default=list(COMMANDS), choices=COMMANDS)
    parser.add_argument('--wheels', type=Path, default=ROOT / 'dist', help='default: dist')
    args = parser.parse_args(argv)
    if not list(args.wheels.glob('mmflatten-*.whl')):
        parser.error(f'--wheels: expected the wheels of mmflatten in {args.wheels}. make dists')
    failed = False
    for python in args.python:
        for extra in args.extras:
            outcome = try_extra(python, extra, args.wheels.resolve())
            name = extra or 'no extra'
            state = 'failed' if outcome.problem else 'ok'
            print(f'Python {python}  {name:9} {state:7} {outcome.seconds:4.0f} s', end='  ')
            print(f'torch {outcome.torch or "-"}', flush=True)
            if outcome.problem:
                print(outcome.problem, flush=True)
            failed |= bool(outcome.problem)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
