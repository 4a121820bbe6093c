"""The Triton kernels without a GPU: under the interpreter, in a process of their own, against float64."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mmflatten.ops.kernels import has_triton

FOLDER = Path(__file__).parent
TOLERANCES = {'bfloat16': 8e-3, 'float16': 2e-3}  # of a result rounded to its type; float32 otherwise

pytestmark = pytest.mark.skipif(not has_triton(), reason='no Triton')


def run_interpreted(script, *arguments):
    """What the script says of every case: whether the margins kept their NaNs, and the error of every result."""
    environment = {**os.environ, 'TRITON_INTERPRET': '1', 'PYTHONPATH': str(FOLDER.parents[2])}
    command = [sys.executable, FOLDER / script, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def wrong(cases):
    """The results that are off, and the cases that wrote beyond their tensors."""
    found = []
    for case, (kept, errors) in cases.items():
        tolerance = next((limit for dtype, limit in TOLERANCES.items() if dtype in case), 5e-6)
        found += [f'{case}: {name} {error:.1e}' for name, error in errors.items() if not error < tolerance]
        found += [] if kept else [f'{case}: out of bounds']
    return found


@pytest.mark.parametrize('extent', ['quick', pytest.param('full', marks=pytest.mark.full)])
def test_attention_kernels_agree_with_the_closed_form(extent):
    cases = run_interpreted('interpreted_attention.py', extent)
    assert cases and wrong(cases) == []


def test_convolution_kernels_agree_with_pytorch():
    cases = run_interpreted('interpreted_convolution.py')
    assert cases and wrong(cases) == []
