"""mmpretrain's inferencer and scripts on a classifier of mmflatten, as a user of mmpretrain runs
them.
"""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.fileio import load

TOOLS = 'analysis_tools'


@pytest.fixture(scope='module')
def classifier(train_on):
    return train_on('flatten-swin-nano_digits')


def test_inferencer(classifier, tmp_path):
    from mmpretrain import ImageClassificationInferencer

    inferencer = ImageClassificationInferencer(
        classifier.config, classifier.checkpoint, device='cpu'
    )
    expected = load(classifier.results)[0]
    (found,) = inferencer(expected['img_path'], show_dir=str(tmp_path))
    np.testing.assert_allclose(found['pred_scores'], expected['pred_score'], atol=1e-5)
    assert found['pred_class'] == str(found['pred_label'])
    assert any(tmp_path.iterdir())


def test_get_model(classifier):
    from mmpretrain import get_model

    model = get_model(classifier.config, pretrained=classifier.checkpoint)
    assert model(torch.zeros(1, 3, 64, 64)).shape == (1, 10)


def test_eval_metric(classifier, script, capsys):
    script(
        'mmpretrain',
        f'{TOOLS}/eval_metric.py',
        classifier.results,
        '--metric',
        'type=Accuracy',
        'topk=1',
    )
    top1 = json.loads(Path(classifier.results).with_suffix('.json').read_text())['metrics'][
        'accuracy/top1'
    ]
    assert f"'accuracy/top1': {top1}" in capsys.readouterr().out


def test_confusion_matrix(classifier, script, tmp_path):
    arguments = ('--out', tmp_path / 'matrix.pkl', '--show-path', tmp_path / 'matrix.png')
    script(
        'mmpretrain',
        f'{TOOLS}/confusion_matrix.py',
        classifier.config,
        classifier.results,
        *arguments,
    )
    assert load(tmp_path / 'matrix.pkl').sum() == len(load(classifier.results))
    script(
        'mmpretrain',
        f'{TOOLS}/confusion_matrix.py',
        classifier.config,
        classifier.checkpoint,
        *arguments,
    )
    assert cv2.imread(str(tmp_path / 'matrix.png')).std() > 0


def test_analyze_results(classifier, script, tmp_path):
    script(
        'mmpretrain',
        f'{TOOLS}/analyze_results.py',
        classifier.config,
        classifier.results,
        '--out-dir',
        tmp_path,
        '--topk',
        2,
    )
    assert (tmp_path / 'fail' / 'fail.json').exists()


def test_analyze_logs(classifier, script, tmp_path):
    out = tmp_path / 'curve.png'
    script(
        'mmpretrain',
        f'{TOOLS}/analyze_logs.py',
        'plot_curve',
        classifier.log,
        '--keys',
        'accuracy/top1',
        '--out',
        out,
    )
    assert cv2.imread(str(out)).std() > 0


def test_get_flops(classifier, script, capsys):
    script('mmpretrain', f'{TOOLS}/get_flops.py', classifier.config, '--shape', 32)
    assert 'Flops' in capsys.readouterr().out


def test_browse_dataset(classifier, script, tmp_path):
    # The other modes (line 217) call a private function of matplotlib that newer releases have
    # changed.
    script(
        'mmpretrain',
        'visualization/browse_dataset.py',
        classifier.config,
        '--output-dir',
        tmp_path,
        '--not-show',
        '--show-number',
        2,
        '--mode',
        'original',
    )
    assert len([cv2.imread(str(path)) for path in tmp_path.rglob('*.*')]) == 2


def test_vis_scheduler(classifier, script, tmp_path):
    out = tmp_path / 'rate.png'
    script(
        'mmpretrain',
        'visualization/vis_scheduler.py',
        classifier.config,
        '--not-show',
        '--save-path',
        out,
        '--dataset-size',
        100,
    )
    assert cv2.imread(str(out)).std() > 0


def test_verify_dataset(classifier, script, tmp_path, capsys):
    script(
        'mmpretrain',
        'misc/verify_dataset.py',
        classifier.config,
        '--out-path',
        tmp_path / 'broken.log',
    )
    assert 'no broken file' in capsys.readouterr().out
