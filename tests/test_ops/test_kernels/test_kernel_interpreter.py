"""The Triton kernels without a GPU: in Triton's interpreter, in a separate process, against
float64.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mmflatten.ops.linear.kernels import has_triton

FOLDER = Path(__file__).parent
TOLERANCES = {'bfloat16': 8e-3, 'float16': 2e-3}  # rounding of the result; else 5e-6 for float32

pytestmark = pytest.mark.skipif(not has_triton(), reason='no Triton')


def run_interpreted(extent):
    """Return for every case whether its margins are intact, and the errors of its results."""
    environment = {**os.environ, 'TRITON_INTERPRET': '1', 'PYTHONPATH': str(FOLDER.parents[2])}
    command = [sys.executable, FOLDER / 'interpreted_kernels.py', extent]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout)


def failures(cases):
    """Results with too large errors, and cases that wrote out of bounds."""
    failed = []
    for case, (intact, errors) in cases.items():
        tolerance = next((limit for dtype, limit in TOLERANCES.items() if dtype in case), 5e-6)
        failed += [
            f'{case}: {name} {error:.1e}' for name, error in errors.items() if not error < tolerance
        ]
        if not intact:
            failed.append(f'{case}: out of bounds')
    return failed


@pytest.mark.parametrize('extent', ['quick', pytest.param('full', marks=pytest.mark.full)])
def test_interpreted_kernels_equal_float64(extent):
    cases = run_interpreted(extent)
    assert cases and failures(cases) == []
