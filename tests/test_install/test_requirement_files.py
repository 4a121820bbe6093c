"""The requirement files, the pins and the table in the code agree."""
import re
import shutil
import subprocess
import sys
import tomllib
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from mmflatten import __version__
from mmflatten.doctor import OPENCV
from mmflatten.requirements import LIBRARIES

ROOT = Path(__file__).resolve().parents[2]
FILES = ('runtime', 'cls', 'det', 'seg', 'demo', 'analyze', 'export', 'timm', 'tests')
HOME = {'mmpretrain': 'cls', 'mmdet': 'det', 'mmseg': 'seg'}  # the others are in runtime


def read(name: str) -> list[Requirement]:
    lines = (ROOT / 'requirements' / f'{name}.txt').read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith('#')]


def pin(name: str, python: str = '3.11') -> str:
    fitting = [pin for pin in read('constraints') if pin.name == name
               and (pin.marker is None or pin.marker.evaluate({'python_version': python}))]
    assert len(fitting) == 1, f'{name} has {len(fitting)} pins for Python {python}'
    return re.fullmatch(r'==([\w.+]+)', str(fitting[0].specifier)).group(1)


@pytest.mark.parametrize('name', sorted(LIBRARIES))
def test_table_in_the_code_equals_the_requirement_files(name):
    library = LIBRARIES[name]
    in_file, = (item for item in read(HOME.get(name, 'runtime')) if item.name == library.distribution)
    assert library.required in str(in_file.specifier).split(',')
    assert pin(library.distribution) == library.tested
    assert Version(library.tested) < Version(library.untested)


@pytest.mark.parametrize('python', ['3.11', '3.12', '3.13', '3.14'])
def test_every_requirement_has_one_pin_inside_its_range(python):
    for file in FILES:
        for requirement in read(file):
            assert requirement.specifier.contains(pin(requirement.name, python)), (file, requirement.name)


def test_setup_installs_every_file_of_an_extra_except_those_it_leaves_out():
    listed = set(re.findall(r'^-r (\w+)\.txt$', (ROOT / 'requirements' / 'setup.txt').read_text(), re.MULTILINE))
    files = {path.stem for path in (ROOT / 'requirements').glob('*.txt')}
    # timm is in tests.txt.
    assert files - listed == {'setup', 'constraints', 'overrides', 'timm', 'track'}


def test_versions_of_opencv_and_of_the_operators_are_the_same_everywhere():
    assert OPENCV.tested == pin('opencv-python') == pin('opencv-python-headless')
    operators = tomllib.loads((ROOT / 'mmcv-torch-ops' / 'pyproject.toml').read_text())['project']
    assert operators['version'] == pin(operators['name'])


def test_built_package_has_every_module_and_table_and_the_runtime_requirements(tmp_path):
    for name in ('setup.py', 'pyproject.toml', 'MANIFEST.in', 'LICENSE', 'model-index.yml', 'requirements', 'mmflatten',
                 'configs', 'tools'):
        source = ROOT / name
        shutil.copytree(source, tmp_path / name) if source.is_dir() else shutil.copy(source, tmp_path)
    for command in ('build', 'egg_info'):
        subprocess.run([sys.executable, 'setup.py', '-q', command], cwd=tmp_path, check=True, capture_output=True)
    library = tmp_path / 'build' / 'lib'
    built = {path.relative_to(library) for path in library.rglob('*.*')}
    assert {path.relative_to(ROOT) for kind in ('*.py', '*.csv', 'py.typed')
            for path in (ROOT / 'mmflatten').rglob(kind)} <= built
    info = Parser().parsestr((tmp_path / 'mmflatten.egg-info' / 'PKG-INFO').read_text())
    assert info['Version'] == __version__
    declared = [Requirement(line) for line in info.get_all('Requires-Dist')]
    assert {str(item) for item in declared if item.marker is None} == {str(item) for item in read('runtime')}
