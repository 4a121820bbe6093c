"""The installer skips what is done, repeats what changed, recovers a broken environment and reports honestly."""
import importlib.util
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def installer(tmp_path):
    """The installer in a copy of the tree's build files, with steps that only note that they ran."""
    for name in ('setup.py', 'pyproject.toml', 'requirements', 'mmflatten/version.py'):
        source, target = ROOT / name, tmp_path / 'tree' / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    spec = importlib.util.spec_from_file_location('installer', tmp_path / 'tree' / 'requirements' / 'install.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ran = []
    module.STEPS = tuple((name, lambda env, name=name: module.ran.append(name), text, files)
                         for name, _, text, files in module.STEPS)
    return module


@pytest.fixture
def environment(installer):
    """A stand-in for a virtual environment: this Python behind a script, quicker than making a real one."""
    env = installer.Environment(installer.ROOT / '.venv')
    env.python.parent.mkdir(parents=True)
    env.python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    env.python.chmod(env.python.stat().st_mode | stat.S_IXUSR)
    return env


ORDER = ['build tools', 'torch', 'mmcv', 'rest', 'project']


def test_first_call_runs_every_step_in_order_and_the_second_none(installer, environment):
    installer.install(environment)
    assert installer.ran == ORDER
    installer.install(environment)
    assert installer.ran == ORDER


def test_changed_requirement_repeats_the_steps_that_read_it(installer, environment):
    installer.install(environment)
    installer.ran.clear()
    with (installer.REQUIREMENTS / 'seg.txt').open('a') as file:
        file.write('another-library\n')
    installer.install(environment)
    assert installer.ran == ['rest']
    installer.ran.clear()
    with installer.CONSTRAINTS.open('a') as file:
        file.write('another-library==1.0\n')
    installer.install(environment)
    assert installer.ran == ORDER


def test_failed_step_is_not_recorded_and_the_next_call_goes_on_there(installer, environment):
    steps = installer.STEPS

    def fail(env):
        raise installer.InstallError('no network')

    installer.STEPS = (*steps[:2], (steps[2][0], fail, *steps[2][2:]), *steps[3:])
    with pytest.raises(installer.InstallError, match='no network'):
        installer.install(environment)
    assert installer.ran == ORDER[:2]
    installer.STEPS = steps
    installer.install(environment)
    assert installer.ran == ORDER


def test_unreadable_record_means_nothing_is_done(installer, environment):
    installer.install(environment)
    environment.record.write_text('{"torch": ')
    installer.ran.clear()
    installer.install(environment)
    assert installer.ran == ORDER


def test_half_made_environment_is_made_anew(installer, environment, capfd):
    installer.install(environment)
    environment.python.unlink()
    commands = []
    run = subprocess.run

    def make_fake(command, **options):
        if 'venv' in command:
            commands.append(command)
            environment.record.unlink()  # --clear empties the folder
            environment.python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
            environment.python.chmod(0o755)
            return subprocess.CompletedProcess(command, 0)
        return run(command, **options)

    installer.subprocess = type('fake', (), {**vars(subprocess), 'run': staticmethod(make_fake)})
    installer.ran.clear()
    installer.install(environment)
    assert commands[0][1:] == ['-m', 'venv', '--clear', str(environment.folder)]
    assert installer.ran == ORDER
    assert 'does not work' in capfd.readouterr().out


def test_settings_that_send_packages_elsewhere_do_not_reach_pip(installer, monkeypatch, tmp_path):
    monkeypatch.setenv('PIP_TARGET', str(tmp_path))
    monkeypatch.setenv('PYTHONPATH', str(tmp_path))
    monkeypatch.setenv('PIP_INDEX_URL', 'kept')
    settings = installer.Environment(tmp_path / '.venv').settings
    assert 'PIP_TARGET' not in settings and 'PYTHONPATH' not in settings
    assert settings['PIP_INDEX_URL'] == 'kept'


def test_pins_come_from_the_constraints_file(installer):
    assert installer.pinned('torch', 'onedl-mmcv') == ['torch==2.12.1', 'onedl-mmcv==2.3.6']


def test_compile_shows_how_far_it_is(installer, environment, capsys):
    lines = ['Collecting onedl-mmcv', '[1/3] c++ a.cpp', '[2/3] c++ b.cpp', '[3/3] c++ c.cpp', 'Successfully built x']
    installer.compile_with_progress(environment, [sys.executable, '-c', f'print({chr(10).join(lines)!r})'])
    output = capsys.readouterr().out
    assert '3 of 3 files compiled' in output and 'Collecting' in output and 'c++' not in output
    assert '[2/3] c++ b.cpp' in (environment.folder / 'mmcv_build.log').read_text()


def test_failed_compile_shows_the_end_of_its_output_and_names_the_log(installer, environment):
    with pytest.raises(installer.InstallError) as failure:
        installer.compile_with_progress(environment, [sys.executable, '-c', 'print("fatal error: x.h"); exit(1)'])
    assert 'fatal error: x.h' in str(failure.value) and 'mmcv_build.log' in str(failure.value)


@pytest.mark.parametrize('probes, compiles', [
    ({'gpu': 'nogpu', 'ops': ['not available']}, 1),
    ({'gpu': 'nogpu', 'ops': [None, 'not available']}, 2),  # a cached wheel for another torch
    ({'gpu': 'gpu', 'ops': ['not available', '13.0']}, 2),  # a cached wheel without CUDA
    ({'gpu': 'gpu', 'ops': ['13.0']}, 1),
])
def test_cached_wheel_of_mmcv_is_checked_and_compiled_anew_when_unfit(installer, environment, monkeypatch, probes,
                                                                      compiles):
    answers = list(probes['ops'])
    monkeypatch.setattr(environment, 'probe', lambda code: probes['gpu'] if code == installer.GPU_PROBE
                        else answers.pop(0) if code == installer.OPS_PROBE else sys.prefix)
    commands = []
    monkeypatch.setattr(installer, 'compile_with_progress', lambda env, command: commands.append(command))
    installer.install_mmcv(environment)
    assert answers == []
    assert len(commands) == compiles
    assert all('--no-build-isolation' in command for command in commands)
    assert ['--no-cache-dir' in command for command in commands] == [False, True][:compiles]


def test_ops_that_never_import_fail_the_step(installer, environment, monkeypatch):
    monkeypatch.setattr(environment, 'probe', lambda code: 'nogpu' if code == installer.GPU_PROBE else None)
    monkeypatch.setattr(installer, 'compile_with_progress', lambda env, command: None)
    with pytest.raises(installer.InstallError, match='was compiled, but its ops do not import'):
        installer.install_mmcv(environment)


def test_record_is_written_aside_and_renamed(installer, environment):
    environment.finish('torch', 'mark')
    assert json.loads(environment.record.read_text()) == {'torch': 'mark'}
    assert [path.name for path in environment.folder.iterdir() if path.is_file()] == ['installed.json']


@pytest.mark.parametrize('version, accepted', [('(3, 9)', False), ('(3, 10)', True), ('(3, 13)', True),
                                               ('(3, 14)', False)])
def test_make_asks_for_a_fitting_python(tmp_path, version, accepted):
    python = tmp_path / 'python'
    check = f'exec {sys.executable} -c "import sys; sys.version_info = {version}\n$2"'
    python.write_text(f'#!/bin/sh\ncase "$1" in\n-c) {check};;\n--version) echo Python of the test;;\n'
                      '*) echo installer called;;\nesac\n')
    python.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != 'MAKEFLAGS'}
    done = subprocess.run(['make', 'setup', f'PYTHON={python}'], cwd=ROOT, env=environment, text=True,
                          capture_output=True)
    assert (done.returncode == 0) is accepted
    assert ('installer called' in done.stdout) is accepted
    assert ('Python 3.10 to 3.13 is needed' in done.stdout) is not accepted
