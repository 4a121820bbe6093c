"""Commands of workflows, run on this machine; and the workflows of this repository."""

import re
import subprocess
import sysconfig
import tomllib
from pathlib import Path

import pytest
import run_workflow
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / '.github' / 'workflows').glob('*.yml'))
CALLED = """
on: {workflow_call: }
jobs:
  make:
    steps:
      - uses: actions/checkout@0
      - run: mkdir out; cat committed.txt > out/copy.txt
      - uses: actions/upload-artifact@0
        with: {name: files, path: out}
"""
CALLER = """
on: [push]
env: {KIND: test}
jobs:
  build: {uses: ./.github/workflows/called.yml}
  use:
    strategy: {matrix: {word: [one, two]}}
    env: {OTHER: more}
    steps:
      - uses: actions/download-artifact@0
        with: {name: files, path: here}
      - run: |
          false || true
          echo "$KIND $OTHER $LAST ${{ matrix.word }} $(cat here/copy.txt)" >> "$RESULT"
        env: {LAST: 'is ${{ matrix.word }}'}
      - uses: someone/publish@0
  fails:
    steps:
      - run: |
          false
          touch "$RESULT.never"
  unknown:
    steps: [{run: 'echo ${{ github.ref }}'}]
"""


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Path:
    """A repository with two workflows and one committed file."""
    folder = tmp_path / 'repository'
    (folder / '.github' / 'workflows').mkdir(parents=True)
    (folder / '.github' / 'workflows' / 'called.yml').write_text(CALLED)
    (folder / '.github' / 'workflows' / 'test.yml').write_text(CALLER)
    (folder / 'committed.txt').write_text('content')
    git = ['git', '-C', str(folder), '-c', 'user.name=a', '-c', 'user.email=a@b']
    for words in (['init', '-q'], ['add', '-A'], ['commit', '-qm', 'first']):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setenv('RESULT', str(tmp_path / 'result.txt'))
    return folder


def run(repository: Path, *jobs: str) -> int:
    return run_workflow.main(['test.yml', *jobs, '--source', str(repository)])


def test_jobs_share_artifacts_and_get_their_values(repository, tmp_path, capsys):
    assert run(repository, 'build:make', 'use') == 0
    lines = (tmp_path / 'result.txt').read_text().splitlines()
    assert lines == ['test more is one one content', 'test more is two two content']
    assert 'use/one: ok (skipped someone/publish)' in capsys.readouterr().out
    (tmp_path / 'result.txt').unlink()
    assert run(repository, 'build:make', 'use/two') == 0
    assert 'two' in (tmp_path / 'result.txt').read_text()


def test_variables_can_be_left_out(repository, tmp_path):
    assert run(repository, 'build:make', 'use/one', '--without', 'OTHER') == 0
    assert (tmp_path / 'result.txt').read_text() == 'test  is one one content\n'


def test_failed_and_unknown_steps_are_reported(repository, tmp_path, capsys):
    assert run(repository, 'fails', 'unknown') == 1
    assert not (tmp_path / 'result.txt.never').exists()
    output = capsys.readouterr().out
    assert 'fails: failed, status 1' in output and '${{ github.ref }}' in output


def test_jobs_are_listed_without_a_name_and_unknown_ones_rejected(repository, capsys):
    assert run(repository) == 0
    listed = capsys.readouterr().out.split()
    assert listed == ['build:make', 'use/one', 'use/two', 'fails', 'unknown']
    with pytest.raises(SystemExit):
        run(repository, 'nothing')


def jobs_of(workflow: Path) -> dict[str, dict]:
    return yaml.safe_load(workflow.read_text(encoding='utf-8'))['jobs']


@pytest.mark.parametrize('workflow', WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_permissions_least(workflow):
    content = yaml.safe_load(workflow.read_text(encoding='utf-8'))
    assert content['permissions'] == {}
    for name, job in content['jobs'].items():
        others = set(job['permissions'].items()) - {('contents', 'read')}
        expected = {('id-token', 'write')} if name == 'publish' else set()
        assert others == expected, name
    for action in re.findall(r'uses: (?!\./)(\S+.*)', workflow.read_text(encoding='utf-8')):
        assert re.fullmatch(r'[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+', action)


def test_zizmor_finds_nothing_of_medium_severity():
    zizmor = Path(sysconfig.get_path('scripts'), 'zizmor')
    command = [zizmor, '--offline', '--quiet', '--min-severity', 'medium', WORKFLOWS[0].parent]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_install_the_uv_of_the_set_up():
    installer = (ROOT / 'requirements' / 'install.py').read_text(encoding='utf-8')
    (pinned,) = re.findall(r"^UV = '(.*)'", installer, re.MULTILINE)
    found = []
    for workflow in WORKFLOWS:
        found += re.findall(r'pip install .*(uv==[\w.]+)', workflow.read_text(encoding='utf-8'))
    assert set(found) == {pinned}


def test_release_publishes_what_the_tests_built():
    release = jobs_of(ROOT / '.github' / 'workflows' / 'release.yml')
    assert release['publish']['needs'] == 'test' and release['test']['needs'] == 'version'
    assert release['test']['uses'].endswith('/test.yml')
    steps = release['publish']['steps']
    (download,) = (step for step in steps if 'download' in step.get('uses', ''))
    names = []
    for step in jobs_of(ROOT / '.github' / 'workflows' / 'build.yml')['build']['steps']:
        if 'upload-artifact' in step.get('uses', ''):
            names.append(step['with'])
    assert download['with'] in names


def test_release_publishes_each_package_alone(tmp_path):
    publish = jobs_of(ROOT / '.github' / 'workflows' / 'release.yml')['publish']
    packages = publish['strategy']['matrix']['package']
    names = []
    for folder in ('.', 'lab', 'mmcv-torch-ops'):
        project = tomllib.loads((ROOT / folder / 'pyproject.toml').read_text())['project']
        names.append(project['name'].replace('-', '_'))
    assert sorted(packages) == sorted(names)
    (command,) = (step['run'] for step in publish['steps'] if 'run' in step)
    for package in packages:
        folder = tmp_path / package
        (folder / 'dist').mkdir(parents=True)
        for name in names:
            (folder / 'dist' / f'{name}-1.2.3.tar.gz').touch()
            (folder / 'dist' / f'{name}-1.2.3-py3-none-any.whl').touch()
        environment = {'PACKAGE': package, 'PATH': '/usr/bin:/bin'}
        subprocess.run(['bash', '-ec', command], cwd=folder, env=environment, check=True)
        uploaded = {path.name.partition('-')[0] for path in (folder / 'upload').iterdir()}
        assert uploaded == {package}


@pytest.mark.parametrize('tag, status', [('v1.2.3', 0), ('v1.2', 1), ('v1.2.30', 1)])
def test_release_requires_the_version_of_the_tag(tmp_path, tag, status):
    job = jobs_of(ROOT / '.github' / 'workflows' / 'release.yml')['version']
    (command,) = (step['run'] for step in job['steps'] if 'run' in step)
    (tmp_path / 'mmflatten').mkdir()
    (tmp_path / 'mmflatten' / 'version.py').write_text("__version__ = '1.2.3'\n")
    environment = {'GITHUB_REF_NAME': tag, 'PATH': '/usr/bin:/bin'}
    done = subprocess.run(['bash', '-ec', command], cwd=tmp_path, env=environment)
    assert done.returncode == status
