"""The demo on a few small scenes: training, test, numbers, drawings and report."""
import importlib.util
import json
from pathlib import Path

import cv2
import pytest
import torch

from mmflatten.datasets.scenes.build import SceneOptions, build_scenes
from mmflatten.report import page
from mmflatten.results.curves import read_scalars
from mmflatten.results.instances import draw_predictions

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope='module')
def digits(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp('data') / 'digits'
    build_scenes(root, SceneOptions(train=4, val=2, size=64, seed=0))
    return root


@pytest.fixture(scope='module')
def demo():
    spec = importlib.util.spec_from_file_location('demo_tool', ROOT / 'tools' / 'demo.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_demo_writes_summary_drawings_curves_and_report(demo, digits, tmp_path, monkeypatch, capfd):
    work_dir = tmp_path / 'demo'
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv('OMP_NUM_THREADS', '1')
    monkeypatch.setenv('PYTHONPATH', str(ROOT))
    reports = []  # tests/test_report checks the pages
    monkeypatch.setattr(page, 'write_report', lambda work_dirs, out: reports.append((work_dirs, out)))
    annotations = digits / 'annotations' / 'instances_val.json'
    options = ['train_cfg.max_epochs=1', 'train_cfg.val_interval=1', 'default_hooks.logger.interval=1',
               *(f'{split}_evaluator.ann_file={annotations}' for split in ('val', 'test')),
               *(f'{split}_dataloader.{option}' for split in ('train', 'val', 'test') for option in (
                   f'dataset.data_root={digits}', 'num_workers=0', 'persistent_workers=False'))]
    assert demo.main(['--work-dir', str(work_dir), '--cfg-options', *options]) == 0, capfd.readouterr().err[-2000:]

    summary = json.loads((work_dir / 'summary.json').read_text())
    assert summary['images'] == dict(train=4, test=2)
    assert all(0 <= summary[name] <= 1 for name in ('bbox_mAP', 'bbox_AP50', 'segm_mAP', 'segm_AP50'))
    assert summary['seconds']['train'] > 0 and summary['seconds']['test'] > 0
    assert {'mmflatten', 'torch', 'mmdet'} <= set(summary['versions'])
    assert Path(summary['checkpoint']).is_file()

    drawings = sorted((work_dir / 'predictions').glob('*.png'))
    assert [path.name for path in drawings] == ['000000.png', '000001.png']
    for path in drawings:
        drawing = cv2.imread(str(path))
        assert drawing.shape == (7 * 64, 2 * 7 * 64, 3)  # two panels, enlarged to at most 480 pixels
        left, right = drawing[:, :7 * 64], drawing[:, 7 * 64:]
        assert (left != right).any()  # an untrained model does not find all boxes
    assert cv2.imread(str(work_dir / 'curves.png')).std() > 1
    assert len([record for record in read_scalars(work_dir) if 'coco/bbox_mAP' in record]) == 1
    assert reports == [([work_dir], work_dir / 'report.html')]


def test_demo_stops_if_a_tool_fails(demo, tmp_path, monkeypatch, capfd):
    (tmp_path / 'tools').mkdir()
    (tmp_path / 'tools' / 'train.py').write_text("import sys\nsys.exit('attn_types: got LX')")
    monkeypatch.setattr(demo, 'ROOT', tmp_path)
    assert demo.main(['--config', str(ROOT / demo.CONFIG), '--work-dir', str(tmp_path / 'demo')]) == 1
    cause, *_, last = capfd.readouterr().err.rstrip().splitlines()
    assert cause == 'attn_types: got LX' and 'train.py' in last and 'got 1' in last


@pytest.mark.parametrize('name', ['mask-rcnn_flatten-swin-nano_fpn_digits.py', 'summary.json'])
def test_demo_deletes_only_an_earlier_demo(tmp_path, name, demo):
    mine = tmp_path / 'mine'
    mine.mkdir()
    (mine / 'thesis.tex').write_text('years of work')
    for path in (mine, mine / 'thesis.tex'):
        with pytest.raises(ValueError, match=f'--work-dir: .*{path}'):
            demo.remove_demo(path, demo.CONFIG)
    assert (mine / 'thesis.tex').exists()

    old = tmp_path / 'old'
    (old / 'predictions').mkdir(parents=True)
    (old / name).write_text('')
    demo.remove_demo(old, demo.CONFIG)
    demo.remove_demo(old, demo.CONFIG)
    assert not old.exists()


@pytest.mark.parametrize('name', ['retinanet_flatten-swin-nano_fpn_digits', 'flatten-swin-nano_digits'])
def test_demo_rejects_a_config_without_masks_before_deleting(tmp_path, capsys, demo, name):
    (tmp_path / 'summary.json').write_text('')
    config = ROOT / 'configs' / 'digits' / f'{name}.py'
    assert demo.main(['--config', str(config), '--work-dir', str(tmp_path)]) == 1
    assert f'--config {config}: ' in capsys.readouterr().err.splitlines()[-1]
    assert (tmp_path / 'summary.json').exists()


def test_drawing_of_a_scene_without_predictions_shows_ground_truth_only(digits, tmp_path):
    empty = dict(bboxes=torch.zeros(0, 4), scores=torch.zeros(0), labels=torch.zeros(0, dtype=torch.int64), masks=[])
    scene = json.loads((digits / 'annotations' / 'instances_val.json').read_text())['images'][0]
    image = next((digits / 'images' / 'validation').glob('*0.png'))
    prediction = dict(img_id=scene['id'], img_path=str(image), pred_instances=empty)
    palette = [(10 * i, 200 - 10 * i, 100) for i in range(10)]
    file, = draw_predictions([prediction], str(digits / 'annotations' / 'instances_val.json'), tuple('0123456789'),
                             palette, tmp_path, side=64)
    drawing, scene = cv2.imread(str(file)), cv2.imread(str(image))
    assert (drawing[:, 64:] == scene).all()
    assert (drawing[:, :64] != scene).any()
