"""Rows of the latency table, measured again after an interruption, and its page."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

MAINTAIN = Path(__file__).parents[2] / 'tools' / 'maintain'


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(MAINTAIN))
    for name in ('latency_table', 'latency', 'latency.rows', 'latency.page', 'latency.cell'):
        sys.modules.pop(name, None)
    return importlib.import_module('latency_table')


def fake_results(milliseconds, boot='1'):
    return dict(
        median_ms=milliseconds,
        q1_ms=1,
        q3_ms=2,
        rounds=3,
        memory_mib=10,
        file_mb=5,
        drift=0.001,
        detections='',
        processor='CPU',
        threads=2,
        versions='torch 2',
        boot=boot,
    )


def test_interrupted_measurement_continues_and_makes_a_page(tool, tmp_path, monkeypatch, capsys):
    table = tmp_path / 'latency_cpu.csv'
    measured = []

    def run_request(request, longest):
        if request['cell'] is None:
            return {}
        cell = tool.Cell(**request['cell'])
        if len(measured) == 3:
            raise KeyboardInterrupt
        measured.append(cell)
        if cell.precision == 'bfloat16':
            raise RuntimeError('no bfloat16')
        return fake_results(40 if 'softmax' in cell.model else 16)

    monkeypatch.setattr(tool, 'run_request', run_request)
    words = ['--models', 'PVTv2-B2 softmax', 'PVTv2-B2 linear', '--heads', 'upernet']
    words += ['--sizes', '1024', '--runtimes', 'eager', 'compiled', '--table', str(table)]
    assert tool.main(['measure', *words]) != 0
    assert len(tool.read_rows(table)) == 3
    expected = tool.all_cells(words[1:3], ['upernet'], [1024], ['eager', 'compiled'])
    first = list(measured)
    monkeypatch.setattr(
        tool, 'run_request', lambda request, longest: fake_results(16) if request['cell'] else {}
    )
    assert tool.main(['measure', *words]) == 0
    rows = tool.read_rows(table)
    assert [tool.cell_of(row) for row in rows] == expected
    # Rows that need no compiler are the first.
    eager = [cell for cell in expected if cell.runtime == 'eager']
    assert first == eager[:3]
    errors = {tool.cell_of(row): row['error'] for row in rows}
    assert [errors.pop(cell) for cell in eager[:2]] == ['', 'no bfloat16']
    assert set(errors.values()) == {''}
    assert tool.main(['page', '--table', str(table)]) == 0
    page = table.with_suffix('.md').read_text()
    assert 'no bfloat16' in page
    lines = [[cell.strip() for cell in line.split('|')] for line in page.splitlines()]
    (ratios,) = [cells for cells in lines if cells[2:5] == ['upernet', 'eager', 'float32']]
    assert ratios[-2] == '2.50'


def test_times_of_two_machines_make_no_ratio(tool, tmp_path, monkeypatch):
    table = tmp_path / 'latency_cpu.csv'

    def run_request(request, longest):
        if request['cell'] is None:
            return {}
        is_linear = 'linear' in request['cell']['model']
        boot = '2' if is_linear and request['cell']['size'] == 640 else '1'
        return fake_results(16 if is_linear else 40, boot)

    monkeypatch.setattr(tool, 'run_request', run_request)
    words = ['--models', 'PVTv2-B2 softmax', 'PVTv2-B2 linear', '--heads', 'classifier']
    words += ['--sizes', '320', '640', '--runtimes', 'eager', '--table', str(table)]
    assert tool.main(['measure', *words]) == 0
    assert tool.main(['page', '--table', str(table)]) == 0
    lines = table.with_suffix('.md').read_text().splitlines()
    (ratios,) = [line for line in lines if 'eager' in line and 'float32' in line and '2.50' in line]
    assert [cell.strip() for cell in ratios.split('|')][-4:-1] == ['2.50', '-', '-']


def test_row_that_takes_too_long_names_the_option(tool, tmp_path, monkeypatch):
    def run_request(request, longest):
        if request['cell'] is None:
            return {}
        raise subprocess.TimeoutExpired([str(tmp_path), '-m', 'latency.cell'], longest)

    monkeypatch.setattr(tool, 'run_request', run_request)
    table = tmp_path / 'latency_cpu.csv'
    words = ['--models', 'Swin-T', '--heads', 'upernet', '--sizes', '640', '--runtimes', 'eager']
    assert tool.main(['measure', *words, '--longest', '60', '--table', str(table)]) == 0
    errors = {row['error'] for row in tool.read_rows(table)}
    assert len(errors) == 1 and '60' in errors.pop()
    assert str(tmp_path) not in table.read_text()


def test_cell_needs_its_own_files(tool, tmp_path):
    from latency.rows import is_prepared

    def cell(runtime, precision):
        return tool.Cell('Swin-T', 'classifier', 640, runtime, precision)

    (tmp_path / '640.npz').touch()
    (tmp_path / 'float32.onnx').touch()
    assert is_prepared(tmp_path, cell('eager', 'bfloat16'))
    assert is_prepared(tmp_path, cell('openvino', 'float32'))
    assert not is_prepared(tmp_path, cell('openvino', 'int8'))
    (tmp_path / '640.npz').unlink()
    assert not is_prepared(tmp_path, cell('openvino', 'float32'))


def test_prepared_file_is_whole_and_written_once(tool, tmp_path):
    from latency.cell import missing_file

    file = tmp_path / 'float32.onnx'
    with pytest.raises(KeyboardInterrupt), missing_file(file) as partial:
        partial.write_text('half')
        raise KeyboardInterrupt
    assert not file.exists()
    with missing_file(file) as partial:
        partial.write_text('whole')
    with missing_file(file) as partial:
        assert partial is None
    assert file.read_text() == 'whole'


def test_page_without_rows_is_an_error(tool, tmp_path, capsys):
    assert tool.main(['page', '--table', str(tmp_path / 'none.csv')]) == 1
    assert '--table' in capsys.readouterr().err
