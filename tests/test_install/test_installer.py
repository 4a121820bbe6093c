"""Set-up: folders that are no environment, settings of the caller, and failures."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = f"""#!{sys.executable}
import json, os, sys
from pathlib import Path
folder = Path(__file__).resolve().parent.parent
with (folder / 'calls').open('a') as file:
    print(json.dumps([sys.argv[1:], dict(os.environ)]), file=file)
text = ' '.join(sys.argv[1:])
if (folder / 'fails').exists() and (folder / 'fails').read_text() in text:
    sys.exit('failed')
if text == '-m pip config list':
    print("global.index-url='https://other'")
    print("install.index-url='https://mirror/simple'")
    print(":env:.cert='/certificate'")
"""


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


def test_installer_rejects_a_folder_that_is_not_an_environment(installer, tmp_path):
    (tmp_path / 'precious.txt').touch()
    with pytest.raises(SystemExit, match='not a virtual environment'):
        installer.install(tmp_path)
    assert (tmp_path / 'precious.txt').exists()


def test_installer_installs_pins_with_index_and_certificate_of_pip(installer, folder, monkeypatch):
    for name in ('PYTHONPATH', 'PIP_TARGET'):
        monkeypatch.setenv(name, 'elsewhere')
    monkeypatch.setenv('SSL_CERT_FILE', '/own')
    monkeypatch.delenv('UV_DEFAULT_INDEX', raising=False)
    installer.install(folder)
    calls = [json.loads(line) for line in (folder / 'calls').read_text().splitlines()]
    ((words, variables),) = (
        call for call in calls if call[0][:4] == ['-m', 'uv', 'pip', 'install']
    )
    assert 'requirements/constraints.txt' in words and './lab[app,cluster]' in words
    assert not {'PYTHONPATH', 'PIP_TARGET'} & set(variables)
    assert variables['UV_DEFAULT_INDEX'] == 'https://mirror/simple'
    assert variables['SSL_CERT_FILE'] == '/own'


def test_installer_recreates_a_broken_environment(installer, tmp_path, monkeypatch):
    broken = tmp_path / '.venv'
    broken.mkdir()
    for name in ('left over', 'pyvenv.cfg'):
        (broken / name).touch()
    # pip fails instead of downloading uv
    monkeypatch.setattr(installer, 'UV', str(tmp_path / 'nothing.whl'))
    with pytest.raises(installer.subprocess.CalledProcessError):
        installer.install(broken)
    assert (broken / 'bin' / 'python').exists() and not (broken / 'left over').exists()
