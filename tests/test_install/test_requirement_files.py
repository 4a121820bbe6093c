"""The requirement files, the pins, the build settings and the table in the code tell the same story."""
import re
import shutil
import subprocess
import sys
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from mmflatten import __version__
from mmflatten.doctor import OPENCV
from mmflatten.requirements import BUILD_TOOLS, LIBRARIES

ROOT = Path(__file__).resolve().parents[2]
FILES = ('build', 'runtime', 'cls', 'det', 'seg', 'demo', 'tests')
HOME = {'mmpretrain': 'cls', 'mmdet': 'det', 'mmseg': 'seg'}  # the others are in runtime


def requirements(name: str) -> dict[str, Requirement]:
    lines = (ROOT / 'requirements' / f'{name}.txt').read_text().splitlines()
    parsed = [Requirement(line) for line in lines if line and not line.startswith('#')]
    return {item.name: item for item in parsed}


def pins() -> list[Requirement]:
    lines = (ROOT / 'requirements' / 'constraints.txt').read_text().splitlines()
    return [Requirement(line) for line in lines if not line.startswith('#')]


def pinned_version(name: str, python: str) -> str:
    fitting = [pin for pin in pins() if pin.name == name
               and (pin.marker is None or pin.marker.evaluate({'python_version': python}))]
    assert len(fitting) == 1, f'{name} has {len(fitting)} pins for Python {python}'
    return str(fitting[0].specifier).removeprefix('==')


@pytest.mark.parametrize('name', sorted(LIBRARIES))
def test_table_in_the_code_equals_the_requirement_files(name):
    library = LIBRARIES[name]
    in_file = requirements(HOME.get(name, 'runtime'))[library.distribution]
    assert in_file.specifier == Requirement(f'{library.distribution}{library.needed}').specifier
    assert pinned_version(library.distribution, '3.11') == library.tested


def test_runtime_file_asks_for_nothing_the_check_does_not_know():
    assert set(requirements('runtime')) <= {library.distribution for library in LIBRARIES.values()}


@pytest.mark.parametrize('python', ['3.10', '3.11', '3.12', '3.13'])
def test_every_requirement_has_one_pin_inside_its_range(python):
    for file in FILES:
        for requirement in requirements(file).values():
            assert requirement.specifier.contains(pinned_version(requirement.name, python)), (file, requirement.name)


def test_every_pin_is_exact():
    assert all(re.fullmatch(r'==[\w.+]+', str(pin.specifier)) for pin in pins())


def test_build_tools_are_the_same_everywhere():
    build = requirements('build')
    pyproject = (ROOT / 'pyproject.toml').read_text()
    assert f'"setuptools{build["setuptools"].specifier}"' in pyproject.replace('>=80,<82', '<82,>=80')
    assert "'setuptools>=80,<82'" in BUILD_TOOLS and str(build['setuptools'].specifier) == '<82,>=80'
    for name in ('wheel', 'ninja', 'psutil', 'packaging'):
        assert name in build and name in BUILD_TOOLS


def test_opencv_of_the_doctor_is_the_pinned_one():
    assert OPENCV == f"opencv-python-headless=={pinned_version('opencv-python-headless', '3.11')}"


@pytest.fixture(scope='module')
def metadata(tmp_path_factory):
    """Metadata that setuptools writes for a copy of the tree's build files."""
    tree = tmp_path_factory.mktemp('tree')
    for name in ('setup.py', 'pyproject.toml', 'MANIFEST.in', 'LICENSE'):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / 'requirements', tree / 'requirements')
    shutil.copytree(ROOT / 'mmflatten', tree / 'mmflatten', ignore=shutil.ignore_patterns('__pycache__'))
    subprocess.run([sys.executable, 'setup.py', '-q', 'build'], cwd=tree, check=True, capture_output=True)
    subprocess.run([sys.executable, 'setup.py', '-q', 'egg_info'], cwd=tree, check=True, capture_output=True)
    return tree


def test_setup_metadata_has_version_python_and_ranges(metadata):
    info = Parser().parsestr((metadata / 'mmflatten.egg-info' / 'PKG-INFO').read_text())
    assert info['Version'] == __version__
    assert info['Requires-Python'] == '>=3.10'
    declared = [Requirement(line) for line in info.get_all('Requires-Dist')]
    core = {item.name: item.specifier for item in declared if item.marker is None}
    assert core == {name: item.specifier for name, item in requirements('runtime').items()}
    assert core['torch'].contains('2.4.0') and core['torch'].contains('2.13.0') and not core['torch'].contains('2.14.0')
    assert {'cls', 'det', 'seg', 'demo', 'tests', 'all'} <= set(info.get_all('Provides-Extra'))


def test_built_package_carries_every_module_and_table(metadata):
    built = {path.relative_to(metadata / 'build' / 'lib') for path in (metadata / 'build' / 'lib').rglob('*.*')}
    in_tree = {path.relative_to(ROOT) for kind in ('*.py', '*.csv') for path in (ROOT / 'mmflatten').rglob(kind)}
    assert in_tree <= built
