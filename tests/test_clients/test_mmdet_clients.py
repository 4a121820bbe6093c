"""mmdet's inferencer and scripts on a detector of mmflatten, as a user of mmdet runs them."""

import json
from pathlib import Path

import cv2
import pytest
from mmengine.fileio import load

TOOLS = 'analysis_tools'


@pytest.fixture(scope='module')
def detector(train_on):
    return train_on('mask-rcnn_flatten-swin-nano_fpn_digits')


@pytest.fixture
def image(scenes) -> str:
    return str(sorted((scenes / 'images' / 'validation').iterdir())[0])


def test_inferencer(detector, image, tmp_path):
    from mmdet.apis import DetInferencer

    inferencer = DetInferencer(
        detector.config, detector.checkpoint, device='cpu', show_progress=False
    )
    out = inferencer(image, out_dir=str(tmp_path), pred_score_thr=0, no_save_pred=False)
    found = out['predictions'][0]
    expected = load(detector.results)[0]['pred_instances']
    assert found['scores'] == pytest.approx(expected['scores'].tolist(), abs=1e-5)
    assert cv2.imread(str(tmp_path / 'vis' / Path(image).name)).shape == cv2.imread(image).shape
    saved = json.loads((tmp_path / 'preds' / f'{Path(image).stem}.json').read_text())
    assert len(saved['scores']) == len(expected['scores'])


def test_init_detector(detector, image):
    from mmdet.apis import inference_detector, init_detector

    model = init_detector(detector.config, detector.checkpoint, device='cpu')
    assert model.dataset_meta['classes'] == tuple('0123456789')
    assert inference_detector(model, image).pred_instances.bboxes.shape[1] == 4


def test_browse_dataset(detector, script, tmp_path):
    script(
        'mmdet',
        f'{TOOLS}/browse_dataset.py',
        detector.config,
        '--output-dir',
        tmp_path,
        '--not-show',
    )
    assert len([cv2.imread(str(path)) for path in tmp_path.iterdir()]) == 4


def test_confusion_matrix(detector, script, tmp_path):
    script('mmdet', f'{TOOLS}/confusion_matrix.py', detector.config, detector.results, tmp_path)
    assert cv2.imread(str(tmp_path / 'confusion_matrix.png')).std() > 0


def test_analyze_results(detector, script, tmp_path):
    script(
        'mmdet',
        f'{TOOLS}/analyze_results.py',
        detector.config,
        detector.results,
        tmp_path,
        '--topk',
        2,
    )
    assert len(list((tmp_path / 'good').iterdir())) == len(list((tmp_path / 'bad').iterdir())) == 2


def test_eval_metric(detector, script, capsys):
    script('mmdet', f'{TOOLS}/eval_metric.py', detector.config, detector.results)
    metrics = json.loads(Path(detector.results).with_suffix('.json').read_text())['metrics']
    assert f"'coco/segm_mAP': {metrics['coco/segm_mAP']}" in capsys.readouterr().out


def test_analyze_logs(detector, script, tmp_path):
    out = tmp_path / 'curve.png'
    script(
        'mmdet',
        f'{TOOLS}/analyze_logs.py',
        'plot_curve',
        detector.log,
        '--keys',
        'bbox_mAP',
        '--out',
        out,
        '--style',
        'ggplot',
    )
    assert cv2.imread(str(out)).std() > 0


def test_coco_error_analysis(detector, script, scenes, tmp_path):
    prefix = f'test_evaluator.outfile_prefix={tmp_path}/found'
    script(
        'mmdet',
        'test.py',
        detector.config,
        detector.checkpoint,
        '--work-dir',
        tmp_path,
        '--cfg-options',
        prefix,
    )
    script(
        'mmdet',
        f'{TOOLS}/coco_error_analysis.py',
        tmp_path / 'found.bbox.json',
        tmp_path / 'errors',
        '--ann',
        scenes / 'annotations' / 'instances_val.json',
        alone=True,
    )
    assert (tmp_path / 'errors' / 'bbox' / 'bbox-allclass-allarea.png').exists()


def test_benchmark(detector, script, tmp_path):
    script(
        'mmdet',
        f'{TOOLS}/benchmark.py',
        detector.config,
        '--checkpoint',
        detector.checkpoint,
        '--task',
        'dataset',
        '--max-iter',
        4,
        '--log-interval',
        1,
        '--num-warmup',
        1,
        '--work-dir',
        tmp_path,
    )


def test_get_flops(detector, script, capsys):
    script('mmdet', f'{TOOLS}/get_flops.py', detector.config, '--num-images', 1)
    assert 'Flops' in capsys.readouterr().out


def test_test_robustness(detector, script, tmp_path):
    # Line 117 of the script writes to model.backbone.init_cfg, which a backbone without pre-trained
    # weights lacks; line 189 corrupts by a transform 'Corrupt' that this mmdet has not, so the
    # clean images alone are left.
    script(
        'mmdet',
        f'{TOOLS}/test_robustness.py',
        detector.config,
        detector.checkpoint,
        '--out',
        tmp_path / 'out.pkl',
        '--corruptions',
        'None',
        '--work-dir',
        tmp_path,
        '--cfg-options',
        'model.backbone.init_cfg.type=Pretrained',
    )
    assert set(load(tmp_path / 'out_results.pkl')['None']) == {0}
