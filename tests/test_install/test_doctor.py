"""The doctor reports the state of the installation on one screen, whatever is broken in it."""
import os
import subprocess
import sys
from pathlib import Path

from mmflatten import doctor
from mmflatten.requirements import LIBRARIES

ROOT = Path(__file__).resolve().parents[2]


def run_doctor(folder: Path, **packages: str) -> tuple[int, str]:
    """Run it where these packages, name and code of their first file, hide the real ones."""
    for name, code in packages.items():
        (folder / name).mkdir()
        (folder / name / '__init__.py').write_text(code)
    environment = {**os.environ, 'PYTHONPATH': f'{folder}{os.pathsep}{ROOT}', 'OMP_NUM_THREADS': '1'}
    done = subprocess.run([sys.executable, '-m', 'mmflatten.doctor'], env=environment, cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def test_working_installation_passes_on_one_screen(tmp_path):
    status, output = run_doctor(tmp_path)
    assert status == 0, output
    rows = {line.split()[0]: line.split() for line in output.splitlines() if line.startswith('  ')}
    assert all(rows[name][1:3] == [library.tested, 'ok'] for name, library in LIBRARIES.items())
    assert len(output.splitlines()) <= 40


def test_everything_broken_is_a_row_with_what_fixes_it(tmp_path):
    info = tmp_path / 'einops-0.3.0.dist-info'
    info.mkdir()
    (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: einops\nVersion: 0.3.0\n')
    status, output = run_doctor(tmp_path, torch='import os; os.abort()', mmdet='import a_library_that_is_nowhere',
                                mmcv="raise ImportError('undefined symbol: x')")
    assert status == 1 and 'Traceback' not in output
    for text in ('status -6', 'pip install --force-reinstall torch==',
                 'einops 0.3.0', 'pip install einops==',
                 'undefined symbol: x', '--no-cache-dir --force-reinstall --no-deps onedl-mmcv==',
                 "No module named 'a_library_that_is_nowhere'", 'pip install onedl-mmdetection=='):
        assert text in output, text


def test_data_folders_are_found_partial_or_missing(tmp_path):
    (tmp_path / 'data/coco/train2017').mkdir(parents=True)
    for split in ('train', 'val'):
        (tmp_path / f'data/imagenet/{split}/n01440764').mkdir(parents=True)
    rows, _ = doctor.report_data(tmp_path)
    states = dict(row.split()[:2] for row in rows)
    assert states.pop('data/coco') == 'partial' and states.pop('data/imagenet') == 'found'
    assert set(states.values()) == {'missing'}
