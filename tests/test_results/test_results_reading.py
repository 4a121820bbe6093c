"""Reading of predictions without running code from the file, and errors of other files."""
import io
import json
import os
import pickle
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch

from mmflatten.results.reading import ResultsError, read_results, require_truth


@pytest.fixture
def written(tmp_path):
    """Function that pickles something and returns the path."""

    def write(content: object) -> str:
        path = tmp_path / 'found.pkl'
        path.write_bytes(pickle.dumps(content, protocol=2))
        return str(path)

    return write


def test_tensors_and_origin_are_read(written, tmp_path):
    entry = dict(pred_score=torch.rand(3), pred_label=torch.arange(2), img_path='a.png', ori_shape=(4, 5))
    (tmp_path / 'found.json').write_text(json.dumps(dict(classes=['x', 'y', 'z'], evaluator=[{}, dict(max_disp=7)])))
    results = read_results(written([entry]))
    torch.testing.assert_close(results.entries[0]['pred_score'], entry['pred_score'], rtol=0, atol=0)
    assert results.entries[0]['pred_label'].tolist() == [0, 1] and results.task.name == 'classification'
    assert results.names(3) == ['x', 'y', 'z'] and results.setting('max_disp') == 7
    unnamed = replace(results, origin={**results.origin, 'classes': None})
    assert unnamed.names(3) == ['0', '1', '2'] and unnamed.setting('max_disp') == 7


class Evil:
    def __reduce__(self):
        return os.mkdir, ('never', )


@pytest.mark.parametrize('content, words', [
    ([], 'empty'), (dict(a=1), 'dict'), ([1, 2], 'list'), ([dict(a=1)], 'pred_instances'), ([Evil()], 'mkdir')])
def test_file_without_predictions_is_named(written, tmp_path, monkeypatch, content, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ResultsError, match=words) as stop:
        read_results(written(content))
    assert 'found.pkl' in str(stop.value) and not (tmp_path / 'never').exists()


class Reduced:
    """An object whose pickle calls a function and may then set a state."""

    def __init__(self, *reduced: object) -> None:
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


def deflated_tensor() -> bytes:
    stored, deflated = io.BytesIO(), io.BytesIO()
    torch.save(torch.zeros(10**6), stored)
    with zipfile.ZipFile(stored) as source, zipfile.ZipFile(deflated, 'w', zipfile.ZIP_DEFLATED) as target:
        for member in source.infolist():
            target.writestr(member.filename, source.read(member))
    return deflated.getvalue()


@pytest.mark.parametrize('value', [
    Reduced(np.dtype, ('V8', False, True), (3, '|', None, ('a',), {'a': (np.dtype(object), 0)}, 8, 1, 0)),
    np.arange(3), np.float64(2), torch.zeros(1).expand(10**12),
    Reduced(torch.storage._load_from_bytes, (deflated_tensor(), )),
], ids=['object pointers', 'array', 'number', 'endless tensor', 'compressed tensor'])
def test_only_whole_tensors_are_read(written, value):
    """An array's dtype could turn bytes of the file into pointers."""
    with pytest.raises(ResultsError, match=r'found\.pkl'):
        read_results(written([dict(pred_score=torch.zeros(2), more=value)]))


def test_functions_are_not_changed_and_memory_is_not_reserved(written, tmp_path):
    path = tmp_path / 'made.pkl'
    path.write_bytes(b'\x80\x02ctorch._utils\n_rebuild_tensor_v2\nN}U\x0c__defaults__(K\x01ts\x86b.')
    with pytest.raises(ResultsError, match='attributes'):
        read_results(path)
    path.write_bytes(b'\x80\x02Nr\xff\xff\xff\x10.')  # None, remembered as value number 285 million
    tracemalloc.start()
    with pytest.raises(ResultsError, match='list'):
        read_results(path)
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


def test_missing_file_and_other_formats_are_named(tmp_path):
    (tmp_path / 'text.pkl').write_text('no pickle')
    with pytest.raises(ResultsError, match='text.pkl'):
        read_results(tmp_path / 'text.pkl')
    with pytest.raises(FileNotFoundError, match='nowhere.pkl'):
        read_results(tmp_path / 'nowhere.pkl')
    with pytest.raises(ResultsError, match=f'{tmp_path} is a folder'):
        read_results(tmp_path)


@pytest.mark.parametrize('content, words', [
    (b'{"classes": [', 'JSON'), ('{"config": "é"}'.encode('latin-1'), 'JSON'), (b'[1]', 'dictionary'),
    (b'{"classes": "0123"}', 'classes.*0123'), (b'{"evaluator": {"type": "Accuracy"}}', 'evaluator.*Accuracy')])
def test_damaged_origin_is_named(written, tmp_path, content, words):
    (tmp_path / 'found.json').write_bytes(content)
    with pytest.raises(ResultsError, match=rf'(?s)(?=.*found\.json).*{words}'):
        read_results(written([dict(pred_score=torch.rand(3))]))


def test_missing_annotations_and_class_counts_are_named(written):
    with pytest.raises(ResultsError, match=r'1 of 2 .*gt_label.*b\.png'):
        require_truth([dict(gt_label=0), dict(img_path='b.png')], 'gt_label')
    results = replace(read_results(written([dict(pred_score=torch.rand(3))])), origin=dict(classes=['x']))
    with pytest.raises(ResultsError, match='1 names.*3 classes'):
        results.names(3)
