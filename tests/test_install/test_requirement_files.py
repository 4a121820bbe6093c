"""Requirement files, pins and the table of versions in the code are consistent."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from mmflatten import __version__
from mmflatten.cli.doctor import OPENCV
from mmflatten.requirements import LIBRARIES

ROOT = Path(__file__).resolve().parents[2]
FILES = ('runtime', 'mmcv', 'cls', 'det', 'seg', 'analyze', 'export', 'hub', 'timm', 'tests')
# the others are in runtime
HOME = {'mmcv': 'mmcv', 'mmpretrain': 'cls', 'mmdet': 'det', 'mmseg': 'seg'}


def read(name: str) -> list[Requirement]:
    lines = (ROOT / 'requirements' / f'{name}.txt').read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith(('#', '-r '))]


def pin(name: str, python: str = '3.11') -> str:
    fitting = [
        pin
        for pin in read('constraints')
        if canonicalize_name(pin.name) == canonicalize_name(name)
        and (pin.marker is None or pin.marker.evaluate({'python_version': python}))
    ]
    assert len(fitting) == 1, f'{name} has {len(fitting)} pins for Python {python}'
    return re.fullmatch(r'==([\w.+]+)', str(fitting[0].specifier)).group(1)


@pytest.mark.parametrize('name', sorted(LIBRARIES))
def test_library_table_equals_the_requirement_files(name):
    library = LIBRARIES[name]
    (in_file,) = (
        item for item in read(HOME.get(name, 'runtime')) if item.name == library.distribution
    )
    assert library.required in str(in_file.specifier).split(',')
    assert pin(library.distribution) == library.tested
    assert Version(library.tested) < Version(library.untested)


@pytest.mark.parametrize('python', ['3.11', '3.12', '3.13'])
def test_requirements_have_one_pin_in_their_range(python):
    for file in FILES:
        for requirement in read(file):
            assert requirement.specifier.contains(pin(requirement.name, python)), (
                file,
                requirement.name,
            )


def test_versions_of_opencv_and_mmcv_torch_ops_are_consistent():
    assert OPENCV.tested == pin('opencv-python') == pin('opencv-python-headless')
    (needed,) = (item for item in read('analyze') if item.name == 'opencv-python')
    assert str(needed.specifier) == OPENCV.required
    lowest = OPENCV.required.removeprefix('>=')
    assert f'test-lowest: OPENCV = opencv-python-headless=={lowest} ' in makefile()
    operators = project('mmcv-torch-ops')
    assert operators['version'] == pin(operators['name'])


def project(folder: str) -> dict:
    return tomllib.loads((ROOT / folder / 'pyproject.toml').read_text())['project']


def specifiers(lines: list[str]) -> dict[str, str]:
    return {requirement.name: str(requirement.specifier) for requirement in map(Requirement, lines)}


def lower_bound(name: str) -> str:
    return LIBRARIES[name].required.removeprefix('>=')


def test_mmcv_torch_ops_has_the_lower_bounds_of_mmflatten():
    found = specifiers(project('mmcv-torch-ops')['dependencies'])
    for name in ('torch', 'torchvision'):
        assert found[name] == LIBRARIES[name].required
    readme = (ROOT / 'mmcv-torch-ops' / 'README.md').read_text()
    first, last = re.search(r'PyTorch (\d+\.\d+) to (\d+\.\d+)', readme).groups()
    assert first == lower_bound('torch')
    assert Version(LIBRARIES['torch'].tested) in SpecifierSet(f'=={last}.*')
    (mmcv,) = project('mmcv-torch-ops')['optional-dependencies']['onedl']
    assert Requirement(mmcv).specifier.contains(pin('onedl-mmcv'))


def test_requirements_of_the_lab_have_one_pin_in_their_range():
    lab = project('lab')
    lines = list(lab['dependencies'])
    for extra in lab['optional-dependencies'].values():
        lines += extra
    for name, specifier in specifiers(lines).items():
        version = __version__ if name == 'mmflatten' else pin(name)
        assert SpecifierSet(specifier).contains(version), name
    major, minor = Version(__version__).release[:2]
    needed = specifiers(lab['dependencies'])['mmflatten']
    assert not SpecifierSet(needed).contains(f'{major}.{minor + 1}.0')  # may break the lab
    assert lab['requires-python'] == project('.')['requires-python']
    assert lab['version'] == __version__


def test_environments_of_bounds_have_all_requirements():
    (line,) = re.findall(r'^LISTS := .*name,([\w ]+),-r', makefile(), re.MULTILINE)
    assert set(line.split()) == set(FILES)
    workflow = yaml.safe_load((ROOT / '.github' / 'workflows' / 'test.yml').read_text())
    targets = workflow['jobs']['bounds']['strategy']['matrix']['target']
    assert targets == ['test-lowest', 'test-newest']
    assert re.findall(r'^test-\w+: RESOLUTION = (.*)', makefile(), re.MULTILINE) == [
        'lowest-direct',
        'highest',
    ]


def makefile() -> str:
    return (ROOT / 'Makefile').read_text()


def test_page_of_the_installation_has_the_versions_of_the_table():
    page = (ROOT / 'docs' / 'install.md').read_text()
    rows = {}
    for line in page.partition('## Versions')[2].splitlines():
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if len(cells) == 3:
            rows[cells[0].lower()] = cells[1:]
    for title, name in (('pytorch', 'torch'), ('torchvision', 'torchvision'), ('numpy', 'numpy')):
        lowest, tested = rows[title]
        assert lowest == lower_bound(name) and tested.startswith(LIBRARIES[name].tested)
    assert rows['opencv'][0] == OPENCV.required.removeprefix('>=')
    assert Version(OPENCV.tested) in SpecifierSet(f'=={rows["opencv"][1].partition(";")[0]}.*')


NAMED = re.compile(r'\b(torch|torchvision)(==|>=)(\d+\.\d+)')


@pytest.mark.parametrize(
    'pattern',
    [
        '*.md',
        'docs/**/*.md',
        'docker/*',
        '.github/workflows/*',
        'lab/**/*.md',
        'mmcv-torch-ops/README.md',
        'mmcv-torch-ops/tools/*.py',
        'Makefile',
    ],
)
def test_commands_install_no_version_below_the_lower_bound(pattern):
    files = [path for path in ROOT.glob(pattern) if path.is_file()]
    assert files
    for path in files:
        for name, _, version in NAMED.findall(path.read_text()):
            assert Version(version) >= Version(lower_bound(name)), f'{path}: {name} {version}'
