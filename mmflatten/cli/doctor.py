"""Show the installed libraries, problems, and the commands that fix them.

Each library is imported and tried in a separate process, so that a crash becomes a line of the
report. The exit status is 1 if something is broken.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from mmflatten.cli.common import command
from mmflatten.requirements import CORE, LIBRARIES, MIXERS, Library, inspect
from mmflatten.version import __version__

OPENCV = Library('cv2', 'opencv-python-headless', '>=4.10', '4.14.0.94', 'reading images')
NMS = (
    'import torch; from {} import nms; device = "cuda" if torch.cuda.is_available() else "cpu"; '
    'nms(torch.tensor([[0., 0., 9., 9.]], device=device), torch.ones(1, device=device), 0.5); '
)
# Code that tries a library and prints a remark. Other libraries are only imported.
PROBES = {
    'torch': (
        'import torch; cuda = torch.version.cuda; gpus = range(torch.cuda.device_count()); '
        'print("built for", f"CUDA {cuda};" if cuda else "the CPU only;", '
        '"GPU: " + ", ".join(map(torch.cuda.get_device_name, gpus)) if gpus else "no GPU here")'
    ),
    'torchvision': NMS.format('torchvision.ops') + 'print("its compiled operators run")',
    'mmcv': (
        NMS.format('mmcv.ops') + 'from mmcv import _ext; print("nms runs;", "mmcv-torch-ops" if'
        ' _ext.__file__.endswith(".py") else "compiled operators")'
    ),
    'mmdet': 'import mmdet, pycocotools.mask; print("imports, with pycocotools")',
}
# Commands that repair an installed library that fails; plain `pip install` would do nothing.
REPAIRS = {
    **dict.fromkeys(
        ('torch', 'torchvision'),
        LIBRARIES['torch'].install_command.replace('install', 'install --force-reinstall'),
    ),
    'mmcv': (
        'pip install --no-cache-dir --force-reinstall --no-deps'
        f' onedl-mmcv=={LIBRARIES["mmcv"].tested} --find-links dist mmcv-torch-ops  # its operators'
        ' do not fit this PyTorch or GPU; dist: make wheels'
    ),
    'cv2': f'pip install --force-reinstall --no-deps opencv-python-headless=={OPENCV.tested}',
}


@command('doctor', __doc__)
def main(args: Namespace) -> int:
    rows, broken, notes = report_libraries()
    attentions, attention_notes = report_attentions()
    report = [
        f'mmflatten {__version__} in {Path(__file__).resolve().parents[2]}',
        '',
        _row('Python', platform.python_version(), 'ok', sys.executable),
        _row(
            'system',
            platform.system(),
            '',
            f'{platform.machine()}, {os.cpu_count()} cores, '
            f'{shutil.disk_usage(Path.cwd()).free / 2**30:.0f} GB of disk free',
        ),
        *rows,
        *attentions,
        *_section('Notes:', [*notes, *attention_notes]),
        *_section(f'Broken ({len(broken)}):', broken),
    ]
    if not broken:
        report += ['', 'Nothing is broken.']
    sys.stdout.write('\n'.join(report) + '\n')
    return 1 if broken else 0


def _section(title: str, items: list[str]) -> list[str]:
    """Return the lines of a list below a title; none for an empty list."""
    return ['', title, *(f'  - {item}' for item in items)] if items else []


def report_libraries() -> tuple[list[str], list[str], list[str]]:
    """Return a row for each library, the broken ones with a fix, and notes."""
    found = {library: inspect(library) for library in (*LIBRARIES.values(), OPENCV)}
    missing = [library.name for library, status in found.items() if status.state == 'missing']
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        probes = list(pool.map(lambda library: _try(library.name, missing), found))
    required = {*CORE} if {'mmpretrain', 'mmdet', 'mmseg'} <= {*missing} else {*CORE, 'mmcv'}
    rows, broken, notes = [], [], []
    for (library, status), (failed, remark) in zip(found.items(), probes):
        remark = remark or f'required {library.required} for {library.purpose}'
        rows.append(
            _row(library.name, status.version or '-', 'broken' if failed else status.state, remark)
        )
        if status.state == 'wrong' or (status.state == 'missing' and library.name in required):
            broken.append(status.message)
        elif failed:
            fix = REPAIRS.get(library.name) if 'ModuleNotFoundError' not in remark else None
            broken.append(
                f'{library.name}: {remark}\n    fix it with: {fix or library.install_command}'
            )
        elif status.state != 'ok':
            notes.append(status.message)
    failed, problem = _run('from mmflatten.requirements import gpu_problem; print(gpu_problem())')
    if problem and not failed:
        notes.append(problem)
    return rows, broken, notes


def report_attentions() -> tuple[list[str], list[str]]:
    """Return a row for each attention of an installed package, and notes on those that cannot be
    loaded.
    """
    rows, notes = [], []
    for entry in metadata.entry_points(group=MIXERS):
        package = f'{entry.dist.name} {entry.dist.version}' if entry.dist else entry.value
        failed, remark = _run(f'from importlib.metadata import EntryPoint; {entry!r}.load()')
        rows.append(_row(entry.name, '', 'broken' if failed else 'ok', f'attention of {package}'))
        notes += [
            f'{entry.name} of {package} cannot be loaded ({remark}). Update or uninstall it.'
        ] * failed
    return rows, notes


def _try(name: str, missing: list[str]) -> tuple[bool, str]:
    """Return True if a library fails when it is used, and the last line that it prints."""
    if name in missing:
        return False, ''
    failed, last = _run(PROBES.get(name, f'import {name}; print("imports")'))
    return failed and not any(f"No module named '{other}'" in last for other in missing), last


def _run(code: str) -> tuple[bool, str]:
    """Return True if `code` fails in a separate Python process, and the last line that it
    prints.
    """
    try:
        child = subprocess.run(
            [sys.executable, '-c', code],
            capture_output=True,
            text=True,
            errors='replace',
            timeout=120,
        )
    except subprocess.TimeoutExpired as error:
        return (
            True,
            f'no result after {error.timeout:.0f} s. Try again when the machine is less busy',
        )
    except OSError as error:
        return True, str(error)
    if child.returncode < 0:
        return True, f'crashed: the Python process ended with status {child.returncode}'
    lines = ['', *(child.stderr if child.returncode else child.stdout).strip().splitlines()]
    # PyTorch adds C++ frames after the error.
    errors = [line for line in lines if re.match(r'[\w.]+(Error|Exception): ', line)]
    return child.returncode > 0, errors[-1] if child.returncode and errors else lines[-1]


def _row(name: str, value: str, state: str, remark: str) -> str:
    return f'  {name:<19}{value:<11}{state:<9}{remark}'.rstrip()
