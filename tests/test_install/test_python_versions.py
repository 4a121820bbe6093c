"""Every file that names Python versions names the same ones."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ['3.11', '3.12', '3.13']
ALL = [f'3.{minor}' for minor in range(8, 20)]
RANGE = re.compile(r'Python (3\.\d+) (?:to|đến) (3\.\d+)')


def between(first: str, last: str) -> list[str]:
    return ALL[ALL.index(first) : ALL.index(last) + 1]


def test_metadata_allow_and_list_the_versions():
    project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
    assert [
        version for version in ALL if f'{version}.1' in SpecifierSet(project['requires-python'])
    ] == VERSIONS
    assert re.findall(r'Python :: (3\.\d+)', '\n'.join(project['classifiers'])) == VERSIONS


def test_setup_accepts_the_versions():
    check = re.search(
        r'\((3, \d+)\) <= sys.version_info\[:2\] <= \((3, \d+)\)', (ROOT / 'Makefile').read_text()
    )
    first, last = check.groups()
    assert between(first.replace(', ', '.'), last.replace(', ', '.')) == VERSIONS


def test_workflow_runs_the_versions():
    workflow = yaml.safe_load((ROOT / '.github' / 'workflows' / 'test.yml').read_text())
    assert workflow['jobs']['make']['strategy']['matrix']['python'] == VERSIONS
    others = re.findall(
        r"python-version: '([\d.]+)'", (ROOT / '.github' / 'workflows' / 'test.yml').read_text()
    )
    assert set(others) <= set(VERSIONS)


@pytest.mark.parametrize(
    'file',
    [
        'README.md',
        'README_vi.md',
        'CONTRIBUTING.md',
        'Makefile',
        'docs/install.md',
        'requirements/constraints.txt',
    ],
)
def test_documents_name_the_versions(file):
    ranges = RANGE.findall((ROOT / file).read_text())
    assert ranges and all(between(*found) == VERSIONS for found in ranges)


@pytest.mark.parametrize('file', ['cpu.Dockerfile', 'cuda.Dockerfile'])
def test_images_have_one_of_the_versions(file):
    assert (
        re.search(
            r'^FROM python:(3\.\d+)', (ROOT / 'docker' / file).read_text(), re.MULTILINE
        ).group(1)
        in VERSIONS
    )
