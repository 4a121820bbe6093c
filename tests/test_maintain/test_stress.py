"""`make stress`: a few of its cases, and its judgement of commands that fail."""
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

STRESS = Path(__file__).parents[2] / 'tools' / 'maintain' / 'stress'


@pytest.mark.full
def test_quick_campaign_holds(tmp_path):
    words = ['hostile_files', '--quick', '--out', str(tmp_path / 'out')]
    ended = subprocess.run([sys.executable, str(STRESS), *words], capture_output=True, text=True,
                           env={**os.environ, 'OMP_NUM_THREADS': '1'})
    assert ended.returncode == 0, ended.stderr[-3000:]
    outcomes = json.loads((tmp_path / 'out' / 'results.json').read_text())
    assert [outcome['lost'] for outcome in outcomes] == [''] * 16
    assert re.search(r'\| hostile files +\| +16 \| +16 \| +0 \|', ended.stdout)


@pytest.fixture
def cases(monkeypatch):
    spec = importlib.util.spec_from_file_location('stress_cases', STRESS / 'cases.py')
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # which data classes require
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize('call, fault', [
    (lambda: time.sleep(60), 'did not end'), (os.abort, 'signal 6'), (lambda: 1 / 0, 'ZeroDivisionError'),
    (lambda: print('fine'), '')])
def test_worst_ends_of_a_command_are_lost(cases, tmp_path, call, fault):
    ended = cases.run(call, tmp_path / 'output.txt', seconds=1)
    assert fault in ended.fault(ended.memory) and bool(fault) == bool(ended.fault(ended.memory))


def test_error_that_does_not_name_the_file_is_lost(cases):
    assert cases.one_line(cases.Ended(0, '', 0), 'a.pkl') == 'no error'
    assert 'a.pkl' in cases.one_line(cases.Ended(1, 'ValueError: bad', 0), 'a.pkl')
    assert cases.one_line(cases.Ended(1, 'a.pkl: bad', 0), 'a.pkl') == ''
    assert 'GiB' in cases.Ended(1, '', 2**40).fault(0)
