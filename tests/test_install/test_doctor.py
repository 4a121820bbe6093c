"""The doctor reports the state of the installation on one screen, whatever is broken in it."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mmflatten import doctor
from mmflatten.datasets.locate import DATA_FOLDERS
from mmflatten.requirements import LIBRARIES, Status

ROOT = Path(__file__).resolve().parents[2]


def run_doctor(folder: Path) -> tuple[int, str]:
    """Run it in `folder`, whose packages and metadata hide the real ones."""
    environment = {**os.environ, 'PYTHONPATH': f'{folder}{os.pathsep}{ROOT}', 'OMP_NUM_THREADS': '1'}
    done = subprocess.run([sys.executable, '-m', 'mmflatten.doctor'], env=environment, cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def fake_package(folder: Path, name: str, files: dict) -> None:
    for file, code in files.items():
        (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / file).write_text(code)


def fake_version(folder: Path, distribution: str, version: str) -> None:
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n')


@pytest.fixture
def probe_results(monkeypatch):
    """Replaces the child process by results that a test may change."""
    results = {name: dict(state='ok', text='fine', mend='') for name in doctor.PROBE_MENDS}
    monkeypatch.setattr(doctor, '_run_probe', lambda: (results, 'ended'))
    monkeypatch.setattr(sys, 'argv', ['doctor'])
    return results


def test_working_installation_passes_on_one_screen(tmp_path):
    status, output = run_doctor(tmp_path)
    assert status == 0, output
    for library in LIBRARIES.values():
        assert any(line.split()[0] == library.name and ' ok ' in line for line in output.splitlines() if line.strip())
    assert 'nms runs; compiled for' in output
    assert 'Nothing is broken' in output
    assert len(output.splitlines()) <= 40


def test_wrong_version_fails_with_the_mending_command(tmp_path):
    fake_version(tmp_path, 'einops', '0.3.0')
    status, output = run_doctor(tmp_path)
    assert status == 1
    assert 'einops 0.3.0' in output and 'pip install einops==' in output
    assert 'Traceback' not in output


def test_crashing_library_is_a_line_of_the_report(tmp_path):
    fake_package(tmp_path, 'torch', {'__init__.py': 'import os\nos.abort()\n'})
    status, output = run_doctor(tmp_path)
    assert status == 1
    assert 'crashed' in output and 'ended with status -6' in output
    assert 'pip install --force-reinstall torch==' in output
    assert 'Traceback' not in output


def test_mmcv_compiled_for_another_torch_fails_with_the_compile_command(tmp_path):
    fake_package(tmp_path, 'mmcv', {'__init__.py': '', 'ops/__init__.py': "raise ImportError('undefined symbol: x')\n"})
    status, output = run_doctor(tmp_path)
    assert status == 1
    assert 'undefined symbol: x' in output and '--no-cache-dir --force-reinstall --no-deps onedl-mmcv==' in output
    assert 'Traceback' not in output


def test_library_that_lacks_a_dependency_gets_the_plain_install(tmp_path):
    fake_package(tmp_path, 'mmdet', {'__init__.py': 'import a_library_that_is_nowhere\n'})
    status, output = run_doctor(tmp_path)
    assert status == 1
    assert "No module named 'a_library_that_is_nowhere'" in output and 'pip install onedl-mmdetection==' in output


def test_gpu_with_ops_compiled_for_the_cpu_is_broken(probe_results, capsys):
    probe_results['import torch'].update(gpus=['A GPU'])
    probe_results['mmcv ops'].update(cuda='not available')
    assert doctor.main() == 1
    assert 'FORCE_CUDA=1 pip install' in capsys.readouterr().out


def test_missing_task_library_is_told_but_not_broken(probe_results, monkeypatch, capsys):
    find = doctor.inspect
    missing = Status('missing', '', 'mmdet is not installed', 'pip install it')
    monkeypatch.setattr(doctor, 'inspect', lambda library: missing if library.name == 'mmdet' else find(library))
    assert doctor.main() == 0
    assert 'mmdet is not installed\n    mend it with: pip install it' in capsys.readouterr().out


def test_data_folders_are_found_partial_or_missing(probe_results, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'data/coco/train2017').mkdir(parents=True)
    for split in ('train', 'val'):
        (tmp_path / f'data/imagenet/{split}/n01440764').mkdir(parents=True)
        (tmp_path / f'data/imagenet/{split}/n01440764/1.JPEG').write_bytes(b'')
    assert doctor.main() == 0
    states = {line.split()[0]: line.split()[1] for line in capsys.readouterr().out.splitlines()
              if line.startswith('  data/')}
    assert states == {**{folder.default_root: 'missing' for folder in DATA_FOLDERS},
                      'data/coco': 'partial', 'data/imagenet': 'found'}


@pytest.mark.parametrize('layout, patterns', [
    ('train2017', ['train2017']),
    ('images/{training,validation}', ['images/training', 'images/validation']),
    ('{a,b}/x_{c,d}.json', ['a/x_c.json', 'a/x_d.json', 'b/x_c.json', 'b/x_d.json']),
    ('train/<class>/*.JPEG', ['train/*/*.JPEG']),
    ('crops/{train,val}/{0..9}', ['crops/train/[0-9]', 'crops/val/[0-9]']),
])
def test_layout_lines_become_glob_patterns(layout, patterns):
    assert doctor._expand(layout) == patterns
