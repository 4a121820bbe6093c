"""Set-up: broken environments, settings of the caller, and replacement of an mmcv that fails."""
import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = f'''#!{sys.executable}
import json, os, sys
from pathlib import Path
folder = Path(__file__).resolve().parent.parent
with (folder / 'calls').open('a') as file:
    print(json.dumps([sys.argv[1:], dict(os.environ)]), file=file)
text = ' '.join(sys.argv[1:])
if (folder / 'fails').exists() and (folder / 'fails').read_text() in text:
    sys.exit('failed')
print({{'-m uv --version': 'uv 0.13.9 (x86_64)', '-m pip --version': 'pip 26',
       '-m pip config list': "global.index-url='https://other'\\ninstall.index-url='https://mirror/simple'\\n"
                             ":env:.cert='/certificate'"}}.get(text, ''))
if 'version_info' in text:
    print(not (folder / 'too old').exists())
if 'mmcv.ops' in text:
    print(1)
'''


@pytest.fixture
def installer():
    spec = importlib.util.spec_from_file_location('installer', ROOT / 'requirements' / 'install.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path) -> Path:
    """An environment whose Python only records its calls."""
    python = tmp_path / '.venv' / 'bin' / 'python'
    python.parent.mkdir(parents=True)
    python.write_text(STAND_IN)
    python.chmod(0o755)
    return tmp_path / '.venv'


def uv_calls(folder: Path) -> list[tuple[str, dict]]:
    calls = [json.loads(line) for line in (folder / 'calls').read_text().splitlines()]
    return [(' '.join(call), variables) for call, variables in calls if call[:4] == ['-m', 'uv', 'pip', 'install']]


def add_package(folder: Path, name: str, *files: str) -> Path:
    info = folder / 'lib' / 'python3' / 'site-packages' / f'{name}-1.0.dist-info'
    info.mkdir(parents=True)
    (info / 'RECORD').write_text(''.join(f'{file},,\n' for file in files))
    return info


def test_installer_recreates_an_incomplete_environment(installer, tmp_path, monkeypatch):
    env = installer.Environment(tmp_path / '.venv')
    env.folder.mkdir()
    for name in ('left over', 'pyvenv.cfg'):
        (env.folder / name).touch()
    monkeypatch.setattr(env, 'run', lambda *command: True)  # pip would download uv
    env.create()
    assert env.output('-c', 'print(1)') == '1' and not (env.folder / 'left over').exists()


def test_installer_recreates_an_environment_with_an_old_python(installer, folder, monkeypatch):
    (folder / 'pyvenv.cfg').touch()
    (folder / 'too old').touch()
    env = installer.Environment(folder)
    monkeypatch.setattr(env, 'run', lambda *command: True)  # pip would download uv
    env.create()
    assert env.output('-c', 'print(1)') == '1'


def test_installer_rejects_a_folder_that_is_not_an_environment(installer, tmp_path):
    (tmp_path / 'precious.txt').touch()
    with pytest.raises(installer.SetupError, match='not a virtual environment'):
        installer.Environment(tmp_path).create()
    assert (tmp_path / 'precious.txt').exists()


def test_installer_installs_pins_into_a_working_environment(installer, folder):
    installer.install(installer.Environment(folder))
    (packages, _), = uv_calls(folder)
    assert '-r requirements/setup.txt' in packages and '-c requirements/constraints.txt' in packages


def test_installer_passes_index_and_certificate_of_pip_to_uv(installer, folder, monkeypatch):
    for name in ('PYTHONPATH', 'PIP_TARGET', 'UV_NO_BUILD_ISOLATION'):
        monkeypatch.setenv(name, 'elsewhere')
    monkeypatch.setenv('SSL_CERT_FILE', '/own')
    monkeypatch.delenv('UV_DEFAULT_INDEX', raising=False)
    installer.install(installer.Environment(folder))
    assert len(uv_calls(folder)) == 1
    for _, variables in uv_calls(folder):
        assert not {'PYTHONPATH', 'PIP_TARGET', 'UV_NO_BUILD_ISOLATION'} & set(variables)
        assert variables['UV_DEFAULT_INDEX'] == 'https://mirror/simple' and variables['SSL_CERT_FILE'] == '/own'


def test_installer_removes_partly_installed_packages(installer, folder):
    partial = add_package(folder, 'partial', 'partial-1.0.dist-info/RECORD', 'partial.py')
    whole = add_package(folder, 'whole', 'whole-1.0.dist-info/RECORD')
    (add_package(folder, 'without_record') / 'RECORD').unlink()
    installer.install(installer.Environment(folder))
    assert not partial.exists() and whole.exists()
    assert not (whole.parent / 'without_record-1.0.dist-info').exists()


@pytest.mark.parametrize('fails', [True, False])
def test_installer_replaces_compiled_mmcv_only_if_it_fails(installer, folder, fails):
    extension = folder / 'lib' / 'python3' / 'site-packages' / 'mmcv' / '_ext.cpython-311-x86_64-linux-gnu.so'
    extension.parent.mkdir(parents=True)
    extension.touch()
    if fails:
        (folder / 'fails').write_text('mmcv.ops')
    installer.install(installer.Environment(folder))
    replaced = [call for call, _ in uv_calls(folder) if '--reinstall-package onedl-mmcv' in call]
    assert len(replaced) == fails and all('--no-cache' in call for call in replaced)


def test_installer_failure_is_one_line_and_status_1(installer, folder, monkeypatch, capsys):
    (folder / 'fails').write_text('uv pip install')
    monkeypatch.setattr(sys, 'argv', ['install.py', str(folder)])
    assert installer.main() == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith('>> Set-up failed: uv could not install')
