"""Size and contents of the committed files."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from mmflatten import __version__

ROOT = Path(__file__).resolve().parents[2]


def test_tracked_files_are_small_and_name_no_home_folder():
    home = re.compile(rb'/(home|Users|root)/\w')
    listing = subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode:
        pytest.skip('not a git checkout, so the committed files are unknown')
    files = [ROOT / name for name in listing.stdout.split('\0') if name and (ROOT / name).is_file()]
    assert ROOT / 'pyproject.toml' in files
    assert [
        str(path)
        for path in files
        if path.stat().st_size > 1_000_000 or home.search(path.read_bytes())
    ] == []


def steps_of(workflow: Path) -> list[str]:
    steps = []
    for job in yaml.safe_load(workflow.read_text(encoding='utf-8'))['jobs'].values():
        steps += [step['run'] for step in job.get('steps', ()) if 'run' in step]
        for target in job.get('strategy', {}).get('matrix', {}).get('target', ()):
            steps.append(f'make {target}')
    return steps


def test_workflows_call_existing_targets_on_each_python():
    makefile = (ROOT / 'Makefile').read_text(encoding='utf-8')
    workflows = ROOT / '.github' / 'workflows'
    targets = set()
    for file in workflows.glob('*.yml'):
        for step in steps_of(file):
            targets.update(re.findall(r'make ([\w-]+)', step))
    assert {'setup', 'doctor', 'demo', 'test', 'dists', 'test-full'} <= targets
    rules = ' '.join(re.findall(r'^([\w -]+):', makefile, re.MULTILINE))
    assert targets <= set(rules.split())
    tried = yaml.safe_load((workflows / 'test.yml').read_text())['jobs']['make']['strategy']
    lowest, highest = (
        int(minor) for minor in re.search(r'\(3\.(\d+) to 3\.(\d+)\)', makefile).groups()
    )
    assert tried['matrix']['python'] == [f'3.{minor}' for minor in range(lowest, highest + 1)]


def test_citation_names_the_version_and_the_date_of_the_changelog():
    citation = yaml.safe_load((ROOT / 'CITATION.cff').read_text(encoding='utf-8'))
    assert citation['version'] == __version__
    changelog = (ROOT / 'CHANGELOG.md').read_text(encoding='utf-8')
    date = re.search(rf'^## {re.escape(__version__)} \((.*)\)$', changelog, re.MULTILINE)[1]
    assert str(citation.get('date-released', 'unreleased')) == date


def test_packages_have_the_licence_of_the_repository():
    for folder in ('lab', 'mmcv-torch-ops'):
        assert (ROOT / folder / 'LICENSE').read_bytes() == (ROOT / 'LICENSE').read_bytes()
