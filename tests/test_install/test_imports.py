"""Imports point one way, and `mmflatten.ops` works where torch is the only library."""
import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / 'mmflatten'
# What each area of the package must not import; a name stands for everything below it.
TASKS = ('mmdet', 'mmseg', 'mmpretrain')
MODELS = 'mmflatten.models'
FORBIDDEN = {
    'ops': (*TASKS, 'mmengine', 'mmcv', 'einops', 'numpy', MODELS, 'mmflatten.registry', 'mmflatten.checkpoints'),
    'models/layers': (*TASKS, f'{MODELS}.attention', f'{MODELS}.backbones', 'mmflatten.checkpoints'),
    'models/attention': (*TASKS, f'{MODELS}.backbones', 'mmflatten.checkpoints'),
    'models/backbones': (*TASKS, f'{MODELS}.necks', f'{MODELS}.stereo'),
    'checkpoints': TASKS,
}
BLOCKER = '''
import sys
BLOCKED = {blocked!r}
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in BLOCKED:
            raise ModuleNotFoundError(name + ' is blocked', name=name)
sys.meta_path.insert(0, Blocker())
'''


def imported_names(file: Path) -> set[str]:
    """Every module a file imports, relative imports resolved, functions' own imports included."""
    package = file.relative_to(ROOT).with_suffix('').parts[:-1]
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = '.'.join(package[:len(package) - node.level + 1]) if node.level else ''
            module = '.'.join(part for part in (base, node.module) if part)
            names.update([module, *(f'{module}.{alias.name}' for alias in node.names)])
    return names


def offences(area: str) -> list[str]:
    return [f'{file.relative_to(ROOT)} imports {name}' for file in sorted((PACKAGE / area).rglob('*.py'))
            for name in sorted(imported_names(file)) for barred in FORBIDDEN[area]
            if name == barred or name.startswith(f'{barred}.')]


@pytest.mark.parametrize('area', FORBIDDEN)
def test_area_exists_and_imports_only_what_lies_below_it(area):
    assert list((PACKAGE / area).glob('*.py')), f'{area} holds no module'
    assert offences(area) == []


def test_relative_and_nested_imports_are_seen(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), 'ROOT', tmp_path)
    file = tmp_path / 'mmflatten' / 'models' / 'layers' / 'x.py'
    file.parent.mkdir(parents=True)
    file.write_text('from ..attention import base\ndef f():\n    import mmdet.models\n')
    assert {'mmflatten.models.attention', 'mmflatten.models.attention.base', 'mmdet.models'} <= imported_names(file)


def run_blocked(blocked: tuple[str, ...], code: str) -> str:
    environment = {**os.environ, 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'}
    done = subprocess.run([sys.executable, '-c', BLOCKER.format(blocked=blocked) + code], env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_ops_compute_with_torch_alone():
    code = ('import torch\nfrom mmflatten import ops\n'
            'q = torch.rand(1, 2, 5, 4)\nprint(ops.softmax_attention(q, q, q).shape)\n')
    assert 'torch.Size([1, 2, 5, 4])' in run_blocked((*TASKS, 'mmengine', 'mmcv', 'einops', 'torchvision'), code)


def test_backbones_and_converters_import_without_any_task_library():
    run_blocked(TASKS, 'import mmflatten.models.backbones, mmflatten.models.attention, mmflatten.checkpoints\n')


def test_importing_the_package_loads_no_library():
    code = "import sys, mmflatten\nprint(sorted({'torch', 'numpy', 'mmengine', 'mmcv'} & set(sys.modules)))\n"
    assert run_blocked((), code) == '[]\n'
