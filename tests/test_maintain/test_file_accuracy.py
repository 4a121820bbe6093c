"""Accuracy of exported files: the table of the page, and a small run of its script."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest

from mmflatten.datasets.scenes.build import SceneOptions, build_scenes

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / 'tools' / 'maintain'))
    sys.modules.pop('file_accuracy', None)
    return importlib.import_module('file_accuracy')


def test_page_has_the_measured_table(tool):
    page = (ROOT / 'docs' / 'run_files.md').read_text(encoding='utf-8')
    assert tool.render(tool.read_rows(tool.TABLE)) in page


@pytest.fixture
def learned_scenes(tmp_path):
    """Scenes that are trained and tested on, because few steps suffice to learn them."""
    root = tmp_path / 'scenes'
    build_scenes(root, SceneOptions(train=16, val=1, seed=0))
    shutil.copy(root / 'annotations/instances_train.json', root / 'annotations/instances_val.json')
    shutil.rmtree(root / 'images' / 'validation')
    shutil.copytree(root / 'images' / 'training', root / 'images' / 'validation')
    return root


@pytest.mark.full
def test_files_have_the_map_of_their_checkpoint(tool, learned_scenes, tmp_path):
    words = ['--data', learned_scenes, '--folder', tmp_path / 'runs', '--heads', 'RetinaNet']
    words += ['--table', tmp_path / 'table.csv', '--epochs', '100']
    assert tool.main(['run', *map(str, words)]) == 0
    (row,) = tool.read_rows(tmp_path / 'table.csv')
    assert float(row['pytorch']) > 0.02
    assert float(row['onnxruntime']) == pytest.approx(float(row['pytorch']), abs=1e-3)
    assert float(row['openvino']) == pytest.approx(float(row['pytorch']), abs=1e-3)
    assert row['int8'] == tool.REFUSED or abs(float(row['int8']) - float(row['pytorch'])) < 0.05
    # A second run tests nothing again.
    results = sorted((tmp_path / 'runs' / 'retinanet').glob('*.json'))
    (tmp_path / 'runs' / 'retinanet' / 'model.onnx').write_text('not a model')
    assert tool.main(['run', *map(str, words)]) == 0
    assert len(results) >= 3 and all('metrics' in json.loads(file.read_text()) for file in results)
