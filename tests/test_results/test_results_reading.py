"""Reading of predictions without running code from the file, and errors of other files."""

import json
import pickle
import shutil
from dataclasses import replace

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
    entry = dict(
        pred_score=torch.rand(3), pred_label=torch.arange(2), img_path='a.png', ori_shape=(4, 5)
    )
    (tmp_path / 'found.json').write_text(
        json.dumps(dict(classes=['x', 'y', 'z'], evaluator=[{}, dict(max_disp=7)]))
    )
    results = read_results(written([entry]))
    torch.testing.assert_close(
        results.entries[0]['pred_score'], entry['pred_score'], rtol=0, atol=0
    )
    assert results.entries[0]['pred_label'].tolist() == [0, 1]
    assert results.task.name == 'classification'
    assert results.names(3) == ['x', 'y', 'z'] and results.setting('max_disp') == 7
    unnamed = replace(results, origin={**results.origin, 'classes': None})
    assert unnamed.names(3) == ['0', '1', '2'] and unnamed.setting('max_disp') == 7


class Evil:
    def __reduce__(self):
        return shutil.copyfile, (__file__, 'never')


@pytest.mark.parametrize(
    'content, words',
    [
        ([], 'empty'),
        (dict(a=1), 'dict'),
        ([1, 2], 'list'),
        ([dict(a=1)], 'pred_instances'),
        ([Evil()], 'shutil.copyfile'),
        ([dict(pred_score=torch.zeros(1).expand(10**12))], 'larger than the file'),
    ],
)
def test_file_without_predictions_is_named(written, tmp_path, monkeypatch, content, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ResultsError, match=words) as stop:
        read_results(written(content))
    assert 'found.pkl' in str(stop.value) and not (tmp_path / 'never').exists()


def test_missing_file_and_other_formats_are_named(tmp_path):
    (tmp_path / 'text.pkl').write_text('no pickle')
    with pytest.raises(ResultsError, match='text.pkl'):
        read_results(tmp_path / 'text.pkl')
    with pytest.raises(FileNotFoundError, match='nowhere.pkl'):
        read_results(tmp_path / 'nowhere.pkl')
    with pytest.raises(ResultsError, match=f'{tmp_path} is a folder'):
        read_results(tmp_path)


@pytest.mark.parametrize(
    'content, words',
    [
        (b'{"classes": [', 'JSON'),
        ('{"config": "é"}'.encode('latin-1'), 'UTF-8'),
        (b'[1]', 'dictionary'),
        (b'{"classes": "0123"}', 'classes.*0123'),
        (b'{"evaluator": {"type": "Accuracy"}}', 'evaluator.*Accuracy'),
    ],
)
def test_damaged_origin_is_named(written, tmp_path, content, words):
    (tmp_path / 'found.json').write_bytes(content)
    with pytest.raises(ResultsError, match=rf'(?s)(?=.*found\.json).*{words}'):
        read_results(written([dict(pred_score=torch.rand(3))]))


def test_missing_annotations_and_class_counts_are_named(written):
    with pytest.raises(ResultsError, match=r'1 of 2 .*gt_label.*b\.png'):
        require_truth([dict(gt_label=0), dict(img_path='b.png')], 'gt_label')
    results = replace(
        read_results(written([dict(pred_score=torch.rand(3))])), origin=dict(classes=['x'])
    )
    with pytest.raises(ResultsError, match='1 names.*3 classes'):
        results.names(3)
