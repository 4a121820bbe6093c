"""Set-up skips what is done, repeats what changed, recovers a broken environment and reports honestly."""
import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ORDER = ['build tools', 'torch', 'mmcv', 'rest', 'deepspeed', 'project']


@pytest.fixture
def installer(tmp_path):
    """Set-up in a copy of the tree's build files, with steps that only note that they ran."""
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
    env.python.chmod(0o755)
    return env


def test_every_step_runs_once_in_order_until_a_file_it_reads_changes(installer, environment):
    installer.install(environment)
    installer.install(environment)
    assert installer.ran == ORDER
    for file, repeated in (('seg.txt', ['rest']), ('constraints.txt', ORDER)):
        installer.ran.clear()
        with (installer.ROOT / 'requirements' / file).open('a') as stream:
            stream.write('another-library==1.0\n')
        installer.install(environment)
        assert installer.ran == repeated
    environment.record.write_text('{"torch": ')  # an unreadable record means that nothing is done
    installer.ran.clear()
    installer.install(environment)
    assert installer.ran == ORDER


def test_the_next_call_goes_on_from_the_step_that_failed(installer, environment):
    steps = installer.STEPS

    def fail(env):
        raise installer.InstallError('no network')

    installer.STEPS = (*steps[:2], (steps[2][0], fail, *steps[2][2:]), *steps[3:])
    with pytest.raises(installer.InstallError, match='no network'):
        installer.install(environment)
    installer.STEPS = steps
    installer.install(environment)
    assert installer.ran == ORDER


def test_half_made_environment_is_made_anew(installer):
    env = installer.Environment(installer.ROOT / '.venv')
    env.folder.mkdir()
    (env.folder / 'left over').touch()
    env.make()
    assert env.probe('print(1)') == '1' and not (env.folder / 'left over').exists()


def test_compile_is_without_debug_information_and_shows_how_far_it_is(installer, environment, monkeypatch, capsys):
    monkeypatch.setenv('CPPFLAGS', '-Imine')
    monkeypatch.setenv('PYTHONPATH', 'elsewhere')  # what sends packages elsewhere does not reach pip
    code = 'import os; print("[1/2]", os.environ["CPPFLAGS"], os.environ.get("PYTHONPATH")); print("[2/2] c++")'
    installer.compile_with_progress(installer.Environment(environment.folder), [sys.executable, '-c', code])
    assert '2 of 2 files compiled' in capsys.readouterr().out
    assert '[1/2] -Imine -g0 None' in (environment.folder / 'mmcv_build.log').read_text()


def test_failed_compile_shows_the_end_of_its_output_and_names_the_log(installer, environment):
    with pytest.raises(installer.InstallError) as failure:
        installer.compile_with_progress(environment, [sys.executable, '-c', 'print("fatal error: x.h"); exit(1)'])
    assert 'fatal error: x.h' in str(failure.value) and 'mmcv_build.log' in str(failure.value)


@pytest.mark.parametrize('gpu, ops, count', [
    ('nogpu', ['not available'] * 2, 1),
    ('nogpu', [None, 'not available'], 2),  # a cached wheel for another torch
    ('gpu', ['not available', '13.0'], 2),  # a cached wheel without CUDA
])
def test_cached_wheel_of_mmcv_that_does_not_fit_is_compiled_anew(installer, environment, monkeypatch, gpu, ops, count):
    answers, commands = iter(ops), []
    monkeypatch.setattr(environment, 'probe', lambda code: gpu if code == installer.GPU_PROBE else next(answers))
    monkeypatch.setattr(installer, 'compile_with_progress', lambda env, command: commands.append(command))
    installer.install_mmcv(environment)
    assert ['--no-cache-dir' in command for command in commands] == [False, True][:count]
