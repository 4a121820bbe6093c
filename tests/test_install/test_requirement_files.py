"""Requirement files, pins and the table of versions in the code are consistent."""
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from mmflatten.cli.doctor import OPENCV
from mmflatten.requirements import LIBRARIES

ROOT = Path(__file__).resolve().parents[2]
FILES = ('runtime', 'mmcv', 'cls', 'det', 'seg', 'analyze', 'export', 'hub', 'timm', 'tests')
HOME = {'mmcv': 'mmcv', 'mmpretrain': 'cls', 'mmdet': 'det', 'mmseg': 'seg'}  # the others are in runtime


def read(name: str) -> list[Requirement]:
    lines = (ROOT / 'requirements' / f'{name}.txt').read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith(('#', '-r '))]


def pin(name: str, python: str = '3.11') -> str:
    fitting = [pin for pin in read('constraints') if canonicalize_name(pin.name) == canonicalize_name(name)
               and (pin.marker is None or pin.marker.evaluate({'python_version': python}))]
    assert len(fitting) == 1, f'{name} has {len(fitting)} pins for Python {python}'
    return re.fullmatch(r'==([\w.+]+)', str(fitting[0].specifier)).group(1)


@pytest.mark.parametrize('name', sorted(LIBRARIES))
def test_library_table_equals_the_requirement_files(name):
    library = LIBRARIES[name]
    in_file, = (item for item in read(HOME.get(name, 'runtime')) if item.name == library.distribution)
    assert library.required in str(in_file.specifier).split(',')
    assert pin(library.distribution) == library.tested
    assert Version(library.tested) < Version(library.untested)


@pytest.mark.parametrize('python', ['3.11', '3.12', '3.13'])
def test_requirements_have_one_pin_in_their_range(python):
    for file in FILES:
        for requirement in read(file):
            assert requirement.specifier.contains(pin(requirement.name, python)), (file, requirement.name)


def test_versions_of_opencv_and_mmcv_torch_ops_are_consistent():
    assert OPENCV.tested == pin('opencv-python') == pin('opencv-python-headless')
    operators = tomllib.loads((ROOT / 'mmcv-torch-ops' / 'pyproject.toml').read_text())['project']
    assert operators['version'] == pin(operators['name'])
