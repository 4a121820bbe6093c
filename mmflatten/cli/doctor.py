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
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from mmflatten.cli.common import command
from mmflatten.requirements import CORE, LIBRARIES, MIXERS, Library, inspect
from mmflatten.version import __version__

OPENCV = Library(
    name='cv2',
    distribution='opencv-python-headless',
    required='>=4.11.0.86',
    tested='4.14.0.94',
    purpose='reading images',
)
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
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    system = f'{platform.machine()}, {os.cpu_count()} cores, {free:.0f} GB of disk free'
    print(f'mmflatten {__version__} in {Path(__file__).resolve().parents[2]}\n')
    print(_row('Python', value=platform.python_version(), state='ok', remark=sys.executable))
    print(_row('system', value=platform.system(), state='', remark=system))
    print('\n'.join([*rows, *attentions]))
    _print_list('Notes:', [*notes, *attention_notes])
    _print_list(f'Broken ({len(broken)}):', broken)
    if not broken:
        print('\nNothing is broken.')
    return 1 if broken else 0


def _print_list(title: str, items: list[str]) -> None:
    if items:
        print(f'\n{title}')
    for item in items:
        print(f'  - {item}')


def report_libraries() -> tuple[list[str], list[str], list[str]]:
    """Return a row for each library, the broken ones with a fix, and notes."""
    found = {library: inspect(library) for library in (*LIBRARIES.values(), OPENCV)}
    missing = {library.name for library, status in found.items() if status.state == 'missing'}
    required = {*CORE, 'mmcv'}
    if missing >= {'mmpretrain', 'mmdet', 'mmseg'}:
        required.discard('mmcv')
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        probes = list(pool.map(lambda library: _try(library.name, missing), found))
    rows: list[str] = []
    broken: list[str] = []
    notes: list[str] = []
    for (library, status), (failed, remark) in zip(found.items(), probes):
        remark = remark or f'required {library.required} for {library.purpose}'
        state = 'broken' if failed else status.state
        rows.append(_row(library.name, value=status.version or '-', state=state, remark=remark))
        if status.state == 'wrong' or (status.state == 'missing' and library.name in required):
            broken.append(status.message)
        elif failed:
            broken.append(f'{library.name}: {remark}\n    fix it with: {_repair(library, remark)}')
        elif status.state != 'ok':
            notes.append(status.message)
    failed, problem = _run('from mmflatten.requirements import gpu_problem; print(gpu_problem())')
    if problem and not failed:
        notes.append(problem)
    return rows, broken, notes


def _repair(library: Library, problem: str) -> str:
    """Return the command that repairs a library. One that lacks a module is installed again."""
    if 'ModuleNotFoundError' in problem:
        return library.install_command
    return REPAIRS.get(library.name, library.install_command)


def report_attentions() -> tuple[list[str], list[str]]:
    """Return a row for each attention of other packages, and a note on each with an error."""
    rows: list[str] = []
    notes: list[str] = []
    for entry in metadata.entry_points(group=MIXERS):
        package = f'{entry.dist.name} {entry.dist.version}' if entry.dist else entry.value
        failed, remark = _run(f'from importlib.metadata import EntryPoint; {entry!r}.load()')
        state = 'broken' if failed else 'ok'
        rows.append(_row(entry.name, value='', state=state, remark=f'attention of {package}'))
        if failed:
            notes.append(
                f'{entry.name} of {package} cannot be loaded ({remark}). Update or uninstall it.'
            )
    return rows, notes


def _try(name: str, missing: Collection[str]) -> tuple[bool, str]:
    """Return True if a library fails when it is used, and the last line that it prints."""
    if name in missing:
        return False, ''
    failed, last = _run(PROBES.get(name, f'import {name}; print("imports")'))
    # The missing library has a row of its own.
    lacks_other = any(f"No module named '{other}'" in last for other in missing)
    return failed and not lacks_other, last


def _run(code: str) -> tuple[bool, str]:
    """Run code in a separate Python process. Return True if it fails, and its last line."""
    try:
        child = subprocess.run(
            [sys.executable, '-c', code],
            capture_output=True,
            text=True,
            errors='replace',
            timeout=120,
        )
    except subprocess.TimeoutExpired as error:
        seconds = f'{error.timeout:.0f} s'
        return True, f'no result after {seconds}. Try again when the machine is less busy'
    except OSError as error:
        return True, str(error)
    if child.returncode < 0:
        return True, f'crashed: the Python process ended with status {child.returncode}'
    if child.returncode == 0:
        return False, _last(child.stdout.splitlines())
    lines = child.stderr.splitlines()
    # PyTorch adds C++ frames after the error.
    errors = [line for line in lines if re.match(r'[\w.]+(Error|Exception): ', line)]
    return True, _last(errors or lines)


def _last(lines: list[str]) -> str:
    """Return the last line that is not empty, '' if there is none."""
    return ''.join([line for line in lines if line.strip()][-1:]).strip()


def _row(name: str, *, value: str, state: str, remark: str) -> str:
    return f'  {name:<19}{value:<11}{state:<9}{remark}'.rstrip()
