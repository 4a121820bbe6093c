"""The script of docs/run_files.md on a file of known results, without PyTorch."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SCRIPT = Path(__file__).parents[2] / 'docs' / 'examples' / 'detect.py'
# Runs a script in a process that cannot import PyTorch.
WITHOUT_PYTORCH = """
import runpy, sys
sys.modules['torch'] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name='__main__')
"""


@pytest.fixture
def bright(tmp_path):
    """A photo (192, 320), red except for its right quarter and green only in its lower quarter."""
    pixels = np.zeros((192, 320, 3), np.uint8)
    pixels[:, :240, 0] = 250
    pixels[144:, :, 1] = 250
    file = tmp_path / 'photo.png'
    Image.fromarray(pixels).save(file)
    return file


def test_script_draws_the_certain_instance(write_file, bright, tmp_path):
    resize = dict(resize=dict(scale=[160, 96], keep_ratio=True))
    words = [SCRIPT, write_file('detection', transforms=resize), bright, tmp_path / 'drawing.png']
    command = [sys.executable, '-c', WITHOUT_PYTORCH, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    before = np.asarray(Image.open(bright)).astype(int)
    after = np.asarray(Image.open(tmp_path / 'drawing.png')).astype(int)
    differs = np.abs(after - before).sum(-1) > 0
    # Red has a score of 0.74 and a mask of three quarters. Green, with 0.25, is not drawn.
    assert differs[:, :236].mean() > 0.99
    assert not differs[:, 244:].any()
    # The frame of the box, which the file gives in pixels of the resized photo.
    frame = after[40, 30:90]
    assert (frame == frame[0]).all()
    assert np.abs(after[60, 60] - frame[0]).max() > 0


def test_script_imports_three_packages():
    lines = SCRIPT.read_text(encoding='utf-8').splitlines()
    imported = {line.split()[1] for line in lines if line.startswith(('import ', 'from '))}
    assert imported == {'json', 'sys', 'numpy', 'onnxruntime', 'PIL'}
