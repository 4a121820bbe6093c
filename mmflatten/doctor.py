"""One screen on the state of the installation: `python -m mmflatten.doctor`; exit status 1 when something is broken.

The libraries are imported in a child process, so that one which crashes is a line of the report and not its end.
"""
import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path

from mmflatten.requirements import BUILD_TOOLS, LIBRARIES, inspect
from mmflatten.version import __version__

CORE = ('torch', 'torchvision', 'numpy', 'einops', 'mmengine', 'mmcv')
PROBE_SECONDS = 120
REBUILD_MMCV = (f'{BUILD_TOOLS} && pip install --no-build-isolation --no-cache-dir --force-reinstall --no-deps '
                f"{LIBRARIES['mmcv'].distribution}=={LIBRARIES['mmcv'].tested}")
OPENCV = 'opencv-python-headless==4.12.0.88'  # the build that needs no desktop libraries
# For what is there but does not work; what only lacks a dependency gets the plain install command.
PROBE_MENDS = {
    'import torch': LIBRARIES['torch'].install_command.replace('install', 'install --force-reinstall'),
    'torchvision ops': LIBRARIES['torch'].install_command.replace('install', 'install --force-reinstall'),
    'import cv2': f'pip install --force-reinstall --no-deps {OPENCV}',
    'mmcv ops': REBUILD_MMCV,
    'import mmpretrain': LIBRARIES['mmpretrain'].install_command,
    'import mmdet': LIBRARIES['mmdet'].install_command,
    'import mmseg': LIBRARIES['mmseg'].install_command,
}


@dataclass
class Report:
    """Lines for the screen, and what to mend: broken things decide the exit status, the rest is for information."""

    lines: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def row(self, name: str, value: str, state: str = '', remark: str = '') -> None:
        self.lines.append(f'  {name:<19}{value:<11}{state:<9}{remark}'.rstrip())

    def text(self) -> str:
        """The whole screen."""
        parts = [*self.lines]
        if self.notes:
            parts += ['', 'To know:', *_bullets(self.notes)]
        if self.broken:
            parts += ['', f'Broken ({len(self.broken)}):', *_bullets(self.broken)]
        else:
            parts += ['', 'Nothing is broken.']
        return '\n'.join(parts) + '\n'


def main() -> int:
    """Print the report; 1 when something that is needed is broken."""
    if '--probe' in sys.argv[1:]:
        _probe()
        return 0
    report = Report([f'mmflatten {__version__} in {Path(__file__).resolve().parent.parent}', ''])
    _report_system(report)
    _report_libraries(report)
    _report_probes(report)
    report.lines.append('')
    _report_data(report)
    sys.stdout.write(report.text())
    return 1 if report.broken else 0


def _bullets(items: list[str]) -> Iterator[str]:
    return ('  - ' + item for item in items)


def _report_system(report: Report) -> None:
    report.row('Python', platform.python_version(), 'ok', sys.executable)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()
    disk = shutil.disk_usage(Path.cwd()).free / 2 ** 30
    report.row('system', platform.system(), '', f'{platform.machine()}, {cores} cores, {_memory_gb()} of memory, '
               f'{disk:.0f} GB of disk free')


def _memory_gb() -> str:
    try:
        return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2 ** 30:.0f} GB"
    except (AttributeError, ValueError, OSError):  # not every system tells
        return 'unknown size'


def _report_libraries(report: Report) -> None:
    for name, library in LIBRARIES.items():
        status = inspect(library)
        report.row(name, status.version or '-', status.state, f'required {library.required} for {library.purpose}')
        if status.state == 'wrong' or (status.state == 'missing' and name in CORE):
            report.broken.append(status.message)
        elif status.state == 'missing':
            report.notes.append(status.message)


def _report_probes(report: Report) -> None:
    """What importing and running the libraries shows beyond their version numbers."""
    results, end = _run_probe()
    for name, mend in PROBE_MENDS.items():
        result = results.get(name, dict(state='crashed', text=end, mend=mend))
        if result['state'] == 'missing':
            continue  # its library has a line of its own above
        report.row(name, '', result['state'], result['text'])
        if result['state'] != 'ok':
            report.broken.append(f"{name}: {result['text']}\n    fix it with: {result['mend']}")
        if result['state'] == 'crashed':
            break  # and with it every probe after this one
    gpus = results.get('import torch', {}).get('gpus')
    if gpus and results.get('mmcv ops', {}).get('cuda') == 'not available':
        report.broken.append('mmcv was compiled without CUDA, so detectors cannot run on the GPU here\n'
                             f'    fix it with: {REBUILD_MMCV.replace("&& pip", "&& FORCE_CUDA=1 pip")}')
    if not gpus and shutil.which('nvidia-smi'):
        report.notes.append('nvidia-smi is here but torch sees no GPU: a CPU build of torch, or no driver access')


def _run_probe() -> tuple[dict[str, dict], str]:
    """Results by probe, and how the child ended, for the probe it did not live to report."""
    command = [sys.executable, '-m', 'mmflatten.doctor', '--probe']
    try:
        child = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors='replace',
                               timeout=PROBE_SECONDS)
        output, end = child.stdout, f'the Python process ended with status {child.returncode}'
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b'').decode(errors='replace')
        end = f'no answer in {PROBE_SECONDS} s'
    except OSError as error:
        output, end = '', f'no child process could be started: {error}'
    results = {}
    for line in output.splitlines():
        if line.startswith('{"probe": ') and line.endswith('}'):  # the libraries may write lines of their own
            result = json.loads(line)
            results[result['probe']] = result
    return results, end


def _probe_torch() -> dict:
    import torch
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    build = f'built for CUDA {torch.version.cuda}' if torch.version.cuda else 'a build for the CPU only'
    return dict(text=f"imports; {build}; {'GPU: ' + ', '.join(gpus) if gpus else 'no GPU here'}", gpus=gpus)


def _probe_torchvision() -> dict:
    import torch
    import torchvision.ops
    torchvision.ops.nms(torch.tensor([[0., 0., 9., 9.]]), torch.ones(1), 0.5)
    return dict(text='its compiled operators run')


def _probe_opencv() -> dict:
    import cv2
    return dict(text=f'cv2 {cv2.__version__} imports')


def _probe_mmcv_ops() -> dict:
    import torch
    from mmcv.ops import get_compiling_cuda_version, nms
    nms(torch.tensor([[0., 0., 9., 9.]]), torch.ones(1), 0.5)
    cuda = get_compiling_cuda_version()
    return dict(text='nms runs; compiled for ' + ('the CPU only' if cuda == 'not available' else f'CUDA {cuda}'),
                cuda=cuda)


def _probe_import(name: str) -> dict:
    importlib.import_module(name)
    return dict(text='imports')


PROBES: dict[str, Callable[[], dict]] = {
    'import torch': _probe_torch,
    'torchvision ops': _probe_torchvision,
    'import cv2': _probe_opencv,
    'mmcv ops': _probe_mmcv_ops,
    **{f'import {name}': partial(_probe_import, name) for name in ('mmpretrain', 'mmdet', 'mmseg')},
}


def _probe() -> None:
    """Run every probe and write one JSON line each; whatever a broken library raises is its result."""
    for name, probe in PROBES.items():
        try:
            result = dict(state='ok', **probe())
        except ModuleNotFoundError as error:
            missing = error.name in LIBRARIES  # else a dependency of the library, or a part of it
            result = dict(state='missing' if missing else 'broken', text=str(error), mend=_mend(name, error))
        except Exception as error:
            reason = (str(error).strip() or 'no message').splitlines()[0]
            result = dict(state='broken', text=f'{type(error).__name__}: {reason}', mend=PROBE_MENDS[name])
        sys.stdout.write(json.dumps(dict(probe=name, **result)) + '\n')
        sys.stdout.flush()


def _mend(name: str, error: ModuleNotFoundError) -> str:
    library = LIBRARIES.get(name.split()[0]) or LIBRARIES.get(name.split()[-1])
    lacks_dependency = '.' not in (error.name or '.')
    return library.install_command if library and lacks_dependency else PROBE_MENDS[name]


def _report_data(report: Report) -> None:
    """Which data folders that the configs name lie under the current directory."""
    try:
        from mmflatten.datasets.locate import DATA_FOLDERS
    except Exception as error:  # the data sets import the libraries, and a broken one may raise anything
        report.row('data', '-', '', f'not looked for while the libraries are broken ({type(error).__name__})')
        return
    for folder in DATA_FOLDERS:
        root = Path(folder.default_root)
        lacking = [content for content in folder.contents if not all(map(_any_match(root), _expand(content)))]
        state = 'missing' if not root.exists() else 'partial' if lacking else 'found'
        remark = f"lacks {', '.join(lacking)}" if state == 'partial' else folder.name
        report.lines.append(f'  {folder.default_root:<32}{state:<9}{remark}')
        if state == 'partial' or (state == 'missing' and folder.how.startswith('python')):
            report.notes.append(f'{folder.default_root} is {state}: {folder.how.format(root=root)}')
    report.notes.append('where to download the other data, and how to lay it out: docs/datasets.md')


def _any_match(root: Path) -> Callable[[str], bool]:
    return lambda pattern: any(True for _ in root.glob(pattern))


def _expand(content: str) -> list[str]:
    """Glob patterns of a layout line: `images/{a,b}` is two, `{0..9}` is a class, `<class>` is anything."""
    pattern = re.sub(r'<\w+>', '*', re.sub(r'\{(\w)\.\.(\w)\}', r'[\1-\2]', content))
    choices = [part.strip('{}').split(',') for part in re.findall(r'\{[^}]*\}|[^{]+', pattern)]
    return [''.join(parts) for parts in product(*choices)]


if __name__ == '__main__':
    sys.exit(main())
