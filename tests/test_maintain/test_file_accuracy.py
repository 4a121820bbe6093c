"""Accuracy of exported files: the table of the page, and a small run of its script."""

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / 'tools' / 'maintain'))
    for name in ('file_accuracy', 'accuracy_heads'):
        sys.modules.pop(name, None)
    return importlib.import_module('file_accuracy')


def test_page_has_the_measured_table(tool):
    page = (ROOT / 'docs' / 'run_files.md').read_text(encoding='utf-8')
    assert tool.render(tool.read_rows(tool.TABLE)) in page


@pytest.mark.full
def test_files_have_the_map_of_their_checkpoint(tool, tmp_path):
    scenes = tool.learned_scenes(tmp_path / 'scenes', 16)
    words = ['--data', scenes, '--folder', tmp_path / 'runs', '--heads', 'RetinaNet']
    words += ['--table', tmp_path / 'table.csv', '--epochs', '100']
    assert tool.main(list(map(str, words))) == 0
    (row,) = tool.read_rows(tmp_path / 'table.csv')
    assert float(row['pytorch']) > 2
    assert float(row['onnxruntime']) == pytest.approx(float(row['pytorch']), abs=0.1)
    assert float(row['openvino']) == pytest.approx(float(row['pytorch']), abs=0.1)
    assert row['int8'] == tool.REFUSED or abs(float(row['int8']) - float(row['pytorch'])) < 5
    # A second run tests nothing again.
    results = sorted((tmp_path / 'runs' / 'retinanet').glob('*.json'))
    (tmp_path / 'runs' / 'retinanet' / 'model.onnx').write_text('not a model')
    assert tool.main(list(map(str, words))) == 0
    assert len(results) >= 3 and all('metrics' in json.loads(file.read_text()) for file in results)
