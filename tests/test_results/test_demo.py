"""The demo on a few small scenes: training, test, figures and drawings."""

import importlib.util
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from pycocotools import mask as coco_mask

from mmflatten.cli import test, train
from mmflatten.datasets.scenes.build import SceneOptions, build_scenes
from mmflatten.results.curves import read_scalars
from mmflatten.results.reading import Results
from mmflatten.tasks import tasks

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope='module')
def digits(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp('data') / 'digits'
    build_scenes(root, SceneOptions(train=8, val=3, size=64, seed=0))
    return root


@pytest.fixture(scope='module')
def demo():
    spec = importlib.util.spec_from_file_location('demo_tool', ROOT / 'tools' / 'demo.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_demo_writes_figures_drawings_and_curves(demo, digits, tmp_path, monkeypatch, capfd):
    def run_tool(name: str, *arguments: str) -> float:
        assert {'train.py': train, 'test.py': test}[name].main(arguments) == 0, (
            capfd.readouterr().err[-2000:]
        )
        return 1.0

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(demo, 'run_tool', run_tool)
    annotations = digits / 'annotations' / 'instances_val.json'
    settings = (
        [f'{split}_dataloader.dataset.data_root={digits}' for split in ('train', 'val', 'test')]
        + [f'{split}_evaluator.ann_file={annotations}' for split in ('val', 'test')]
        + ['train_cfg.max_epochs=2', 'train_cfg.val_interval=1', 'default_hooks.logger.interval=1']
    )
    work_dir = tmp_path / 'demo'
    assert demo.main(['--work-dir', str(work_dir), '--cfg-options', *settings]) == 0

    summary = json.loads((work_dir / 'summary.json').read_text())
    assert summary['images'] == dict(train=8, test=3)
    assert all(
        0 <= summary[name] <= 1 for name in ('bbox_mAP', 'bbox_AP50', 'segm_mAP', 'segm_AP50')
    )
    assert summary['seconds']['train'] > 0 and summary['seconds']['test'] > 0
    assert {'mmflatten', 'torch', 'mmdet'} <= set(summary['versions'])
    assert Path(summary['checkpoint']).is_file()

    drawings = sorted((work_dir / 'predictions').glob('*.png'))
    assert [path.name for path in drawings] == ['000000.png', '000001.png', '000002.png']
    for path in drawings:
        drawing = cv2.imread(str(path))
        # two panels, enlarged to at most 480 pixels
        assert drawing.shape == (7 * 64, 2 * 7 * 64, 3)
        left, right = drawing[:, : 7 * 64], drawing[:, 7 * 64 :]
        assert (left != right).any()  # the truth has boxes that an untrained model does not find
    assert cv2.imread(str(work_dir / 'curves.png')).std() > 1
    assert len([record for record in read_scalars(work_dir) if 'coco/bbox_mAP' in record]) == 2
    assert (work_dir / 'report.html').stat().st_size > 10**5


def test_failed_tool_ends_the_demo(demo, capfd):
    with pytest.raises(ChildProcessError, match='train.py .* 2'):
        demo.run_tool('train.py')
    assert 'config' in capfd.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize('name', ['mask-rcnn_flatten-swin-nano_fpn_digits.py', 'summary.json'])
def test_demo_deletes_only_its_own_files(tmp_path, name, demo):
    mine = tmp_path / 'mine'
    mine.mkdir()
    (mine / 'thesis.tex').write_text('years of work')
    with pytest.raises(ValueError, match=r'--work-dir: .*mine'):
        demo.empty(mine, demo.CONFIG)
    assert (mine / 'thesis.tex').exists()
    with pytest.raises(ValueError, match='thesis.tex'):
        demo.empty(mine / 'thesis.tex', demo.CONFIG)

    old = tmp_path / 'old'
    (old / 'predictions').mkdir(parents=True)
    (old / name).write_text('')
    demo.empty(old, demo.CONFIG)
    demo.empty(old, demo.CONFIG)
    assert not old.exists()


@pytest.mark.parametrize(
    'name', ['retinanet_flatten-swin-nano_fpn_digits', 'flatten-swin-nano_digits']
)
def test_demo_rejects_config_without_masks(tmp_path, capsys, demo, name):
    (tmp_path / 'summary.json').write_text('')
    config = ROOT / 'configs' / 'digits' / f'{name}.py'
    assert demo.main(['--config', str(config), '--work-dir', str(tmp_path)]) == 1
    assert f'--config ({config}): test_evaluator.metric' in capsys.readouterr().err.splitlines()[-1]
    assert (tmp_path / 'summary.json').exists()


def test_scene_without_predictions_shows_only_the_truth(digits, demo, tmp_path):
    empty = dict(bboxes=torch.zeros(0, 4), labels=torch.zeros(0, dtype=torch.int64), masks=[])
    truth = dict(
        bboxes=torch.tensor([[8.0, 8, 40, 40]]),
        labels=torch.tensor([3]),
        masks=[coco_mask.encode(np.asfortranarray(np.eye(64, dtype=np.uint8)))],
    )
    image = next((digits / 'images' / 'validation').glob('*0.png'))
    entry = dict(
        img_path=str(image),
        ori_shape=(64, 64),
        gt_instances=truth,
        pred_instances=dict(empty, scores=torch.zeros(0)),
    )
    origin = dict(
        classes=list('0123456789'), palette=[[10 * i, 200 - 10 * i, 100] for i in range(10)]
    )
    (file,) = demo.draw(
        Results(Path('made-up.pkl'), [entry], tasks()['detection'], origin), tmp_path, side=64
    )
    drawing, scene = cv2.imread(str(file)), cv2.imread(str(image))
    assert (drawing[:, 64:] == scene).all()
    assert (drawing[:, :64] != scene).any()
