"""Directions of imports, and parts of the package without the libraries that they do not need."""

import ast
import re
import subprocess
import sys
import tempfile
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from layout import LAYERS, MODEL_LAYERS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / 'mmflatten'
ISOLATED = Path(__file__).parent / 'isolated'
# Libraries that an area must not import.
TASKS = ('mmdet', 'mmseg', 'mmpretrain', 'timm')
BARRED = {
    'ops': (*TASKS, 'mmengine', 'mmcv', 'torchvision', 'numpy'),
    'checkpoints': (*TASKS, 'mmcv', 'torchvision'),
    'checkpoints/families': (*TASKS, 'mmengine', 'mmcv', 'torchvision'),
    'timm': ('mmdet', 'mmseg', 'mmpretrain', 'mmcv', 'torchvision'),
    **dict.fromkeys(
        ('models/layers', 'models/attention', 'models/backbones'), (*TASKS, 'mmcv', 'torchvision')
    ),
}
BLOCKER = """
import runpy, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {blocked!r}:
            raise ModuleNotFoundError(name + ' is blocked', name=name)
sys.meta_path.insert(0, Blocker())
"""


def imported_modules(file: Path) -> set[str]:
    """Return all modules that a file imports, including imports inside functions and for types."""
    package = file.relative_to(ROOT).with_suffix('').parts[:-1]
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = '.'.join(package[: len(package) - node.level + 1]) if node.level else ''
            module = '.'.join(part for part in (base, node.module) if part)
            names.update(
                f'{module}.{alias.name}' if module_path(f'{module}.{alias.name}') else module
                for alias in node.names
            )
    return names


def module_path(name: str) -> Path | None:
    """Return the file or folder of a module of this package, or None."""
    path = ROOT / name.replace('.', '/')
    return next((path for path in (path, path.with_suffix('.py')) if path.exists()), None)


def edges(folder: Path) -> list[tuple[str, str, str]]:
    """Return (importing part, imported part, description) for every import between the parts of a
    folder.
    """
    inside = '.'.join(folder.relative_to(ROOT).parts) + '.'
    found = []
    for file in sorted(folder.rglob('*.py')):
        area = file.relative_to(folder).parts[0].removesuffix('.py')
        for name in sorted(imported_modules(file)):
            other = name.removeprefix(inside).split('.')[0]
            if area != '__init__' and name.startswith(inside) and other != area:
                found.append((area, other, f'{file.relative_to(ROOT)} imports {name}'))
    return found


@pytest.mark.parametrize('folder, layers', [(PACKAGE, LAYERS), (PACKAGE / 'models', MODEL_LAYERS)])
def test_layer_imports_only_lower_layers(folder, layers):
    level = {}
    for number, areas in enumerate(layers):
        level.update(dict.fromkeys(areas, number))
    assert [text for area, other, text in edges(folder) if level[other] > level[area]] == []


@pytest.mark.parametrize(
    'package', sorted(str(file.parent.relative_to(ROOT)) for file in PACKAGE.rglob('__init__.py'))
)
def test_package_has_no_import_cycle(package):
    graph = {}
    for area, other, _ in edges(ROOT / package):
        graph.setdefault(area, set()).add(other)
    TopologicalSorter(graph).prepare()  # raises CycleError


def sources(*folders: str) -> list[Path]:
    found = []
    for folder in folders:
        files = (ROOT / folder).rglob('*')
        found += [file for file in files if file.suffix in ('.py', '.js', '.html')]
    return found


def test_mmflatten_does_not_import_the_lab():
    found = []
    for file in sources('mmflatten', 'configs', 'tools'):
        if file.suffix == '.py' and 'maintain' not in file.parts:
            packages = {name.partition('.')[0] for name in imported_modules(file)}
            if 'mmflatten_lab' in packages:
                found.append(str(file))
    assert found == []


def test_only_tasks_compare_task_names():
    names = 'mm[a-z]+|classification|detection|segmentation|stereo'
    pattern = re.compile(rf"""(scope|task)\b[^\n'"]*\s(==|!=|in)\s*\(?['"]({names})['"]""")
    found = []
    for file in PACKAGE.rglob('*.py'):
        if file.parent.name != 'tasks':
            lines = file.read_text(encoding='utf-8').splitlines()
            found += [f'{file.name}: {line.strip()}' for line in lines if pattern.search(line)]
    assert found == []


@pytest.mark.parametrize('area', BARRED)
def test_area_does_not_import_barred_libraries(area):
    files = sorted((PACKAGE / area).rglob('*.py'))
    assert files
    found = []
    for file in files:
        for name in sorted(imported_modules(file)):
            if name.split('.')[0] in BARRED[area]:
                found.append(f'{file.relative_to(ROOT)} imports {name}')
    assert found == []


def test_package_import_loads_no_library(run_python):
    code = (
        "import sys, mmflatten\nprint(sorted({'torch', 'numpy', 'mmengine', 'mmcv'} &"
        ' set(sys.modules)))\n'
    )
    assert run_python('-c', code) == (0, '[]\n')


# MMEngine brings no OpenCV
SCRIPTS = {
    'operators': BARRED['ops'],
    'backbones': (*BARRED['models/backbones'], 'cv2'),
    'timm_models': ('mmdet', 'mmseg', 'mmpretrain', 'mmcv', 'cv2'),
}
LIBRARIES = {
    'operators': ('torch', 'einops'),
    'backbones': ('torch', 'einops', 'onedl-mmengine'),
    'timm_models': ('torch', 'torchvision', 'einops', 'onedl-mmengine', 'timm'),
}


@pytest.mark.parametrize(
    'script, absent',
    [
        # the tests of timm's models run the same code with all libraries
        pytest.param(*item, marks=[pytest.mark.full] if item[0] == 'timm_models' else [])
        for item in SCRIPTS.items()
    ],
)
def test_core_runs_with_other_libraries_blocked(run_python, script, absent):
    code = BLOCKER.format(blocked=absent) + f'runpy.run_path({str(ISOLATED / script)!r} + ".py")\n'
    status, output = run_python('-c', code)
    assert status == 0 and f'{script} run' in output, output


@pytest.mark.full
@pytest.mark.parametrize('script, absent', SCRIPTS.items())
def test_core_runs_in_an_environment_with_only_its_libraries(run_python, script, absent):
    """Takes up to 5 GB of disk for a minute; uv finds torch in the cache of the set-up."""
    constraints = ROOT / 'requirements' / 'constraints.txt'
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / 'bin' / 'python'
        subprocess.run([sys.executable, '-m', 'venv', folder], check=True)
        subprocess.run(
            [
                sys.executable,
                '-m',
                'uv',
                'pip',
                'install',
                '-q',
                '--python',
                python,
                '-c',
                constraints,
                *LIBRARIES[script],
            ],
            check=True,
        )
        code = f'from importlib.util import find_spec\nassert not any(map(find_spec, {absent}))'
        assert run_python('-c', code, python=python) == (0, '')
        status, output = run_python(str(ISOLATED / f'{script}.py'), python=python)
        assert status == 0 and f'{script} run' in output, output
