"""Testing on the three tasks: metrics, predictions, drawings, test-time augmentation."""

import json
import os
import pickle
from pathlib import Path
from textwrap import dedent

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope

from mmflatten.datasets.scenes.build import SceneOptions, build_scenes
from mmflatten.engine.test import tta_pipeline

BASES = Path(__file__).parents[2] / 'configs' / '_base_'
SIZE = 96
DETECTION = """
    _base_ = ['{bases}/models/mask-rcnn_fpn.py', '{bases}/datasets/digits_coco.py',
              '{bases}/default_runtime.py']
    default_scope = 'mmdet'
    model = dict(
        backbone=dict(_delete_=True, type='mmflatten.FLattenSwin', img_size=96, attn_types='LLSS',
                      arch=dict(embed_dims=8, depths=(1, 1, 1, 1), num_heads=(1, 1, 1, 1))),
        neck=dict(in_channels=[8, 16, 32, 64], out_channels=16),
        rpn_head=dict(in_channels=16, feat_channels=16),
        roi_head=dict(
            bbox_roi_extractor=dict(out_channels=16), mask_roi_extractor=dict(out_channels=16),
            bbox_head=dict(in_channels=16, fc_out_channels=16, num_classes=10),
            mask_head=dict(in_channels=16, conv_out_channels=16, num_classes=10)),
        test_cfg=dict(rpn=dict(max_per_img=40), rcnn=dict(score_thr=0.09, max_per_img=20)))
    test_dataloader = dict(batch_size=2, num_workers=0, persistent_workers=False,
                           dataset=dict(data_root='{data}/'))
    test_evaluator = dict(ann_file='{data}/annotations/instances_val.json')
    tta_pipeline = None  # test the default pipeline instead of the data set's
    test_cfg = dict(type='TestLoop')
    work_dir = '{folder}/run'
"""


@pytest.fixture(scope='module')
def digits(tmp_path_factory):
    root = tmp_path_factory.mktemp('scenes') / 'digits'
    build_scenes(root, SceneOptions(train=2, val=3, size=SIZE, seed=0))
    return root


def metrics_and_predictions(out: Path) -> tuple[dict, list]:
    return json.loads(out.with_suffix('.json').read_text())['metrics'], pickle.loads(
        out.read_bytes()
    )


def assert_drawn(folder: Path, names: list[str]):
    drawings = sorted(folder.iterdir())
    assert [path.name for path in drawings] == names
    assert all(cv2.imread(str(path)).std() > 0 for path in drawings)


def test_classifier(tiny, tools):
    assert tools.train([tiny.config, '--cfg-options', 'train_cfg.max_epochs=2']) == 0
    out, drawings = tiny.folder / 'out.pkl', tiny.folder / 'drawings'
    checkpoint = tiny.work_dir / 'epoch_2.pth'
    assert tools.test([tiny.config, checkpoint, '--out', out, '--show-dir', drawings]) == 0
    metrics, predictions = metrics_and_predictions(out)
    assert metrics == {'accuracy/top1': 100.0}
    assert [Path(entry['img_path']) for entry in predictions] == tiny.images
    assert [entry['pred_label'].item() for entry in predictions] == [0] * 8 + [1] * 8
    assert_drawn(drawings, [f'{i:06d}_{path.stem}.png' for i, path in enumerate(tiny.images)])

    # The augmented scores are the mean of the scores of the images and of their mirror images.
    assert tools.test([tiny.config, checkpoint, '--out', out, '--tta']) == 0
    averaged = metrics_and_predictions(out)[1]
    for path in tiny.images:
        cv2.imwrite(str(path), cv2.flip(cv2.imread(str(path)), 1))
    assert tools.test([tiny.config, checkpoint, '--out', out]) == 0
    mirrored = metrics_and_predictions(out)[1]
    for mean, plain, mirror in zip(averaged, predictions, mirrored):
        np.testing.assert_allclose(
            mean['pred_score'], (plain['pred_score'] + mirror['pred_score']) / 2, atol=1e-6
        )


def test_detector(tmp_path, tools, digits, fails):
    config, checkpoint = tmp_path / 'config.py', tmp_path / 'model.pth'
    config.write_text(dedent(DETECTION).format(bases=BASES, data=digits, folder=tmp_path))
    with DefaultScope.overwrite_default_scope('mmdet'):
        torch.manual_seed(0)
        torch.save(
            dict(state_dict=MODELS.build(Config.fromfile(config).model).state_dict()), checkpoint
        )
    out, drawings = tmp_path / 'out.pkl', tmp_path / 'drawings'
    assert tools.test([config, checkpoint, '--out', out, '--show-dir', drawings]) == 0
    metrics, predictions = metrics_and_predictions(out)
    assert {'coco/bbox_mAP', 'coco/segm_mAP'} <= metrics.keys()
    for entry in predictions:
        found = entry['pred_instances']
        assert 0 < len(found['scores']) <= 100
        assert found['bboxes'].shape == (len(found['scores']), 4)
        assert [mask['size'] for mask in found['masks']] == [[SIZE, SIZE]] * len(found['scores'])
        assert len(entry['gt_instances']['masks']) == len(entry['gt_instances']['bboxes']) > 0
    assert_drawn(
        drawings,
        [f'{i:06d}_{Path(entry["img_path"]).stem}.png' for i, entry in enumerate(predictions)],
    )
    assert 'Give tta_model' in fails('test', config, checkpoint, '--tta')


def test_segmentor(segmentation, tools):
    assert tools.train([segmentation.config]) == 0
    out, drawings = segmentation.folder / 'out.pkl', segmentation.folder / 'drawings'
    checkpoint = segmentation.folder / 'run' / 'iter_1.pth'
    for options in ([], ['--tta']):
        assert (
            tools.test(
                [segmentation.config, checkpoint, '--out', out, '--show-dir', drawings, *options]
            )
            == 0
        )
        metrics, predictions = metrics_and_predictions(out)
        assert {'mIoU', 'mAcc', 'aAcc'} <= metrics.keys()
        for entry in predictions:
            for labels in (entry['pred_sem_seg']['data'], entry['gt_sem_seg']['data']):
                assert labels.shape == (1, 64, 64) and labels.dtype == torch.uint8
        assert out.stat().st_size < 2 * 2 * 64 * 64 + 10_000
        assert_drawn(drawings, ['000000_1.png', '000001_2.png'])


def test_unwritable_output_is_rejected_before_testing(tiny, fails, monkeypatch):
    monkeypatch.setattr(os, 'access', lambda path, mode: False)
    assert f'{tiny.folder}/new' in fails(
        'test', tiny.config, 'nothing.pth', '--out', tiny.folder / 'new' / 'out.pkl'
    )


def test_default_tta_flips_before_reading_labels():
    pipeline = [
        dict(type='LoadImageFromFile'),
        dict(type='Resize', scale=(200, 100), keep_ratio=True),
        dict(type='LoadAnnotations'),
        dict(type='PackSegInputs', meta_keys=('img_path',)),
    ]
    first, augmented = tta_pipeline(pipeline, multi_scale=True)
    scales, flips, labels, pack = augmented['transforms']
    assert first['type'] == 'LoadImageFromFile'
    assert [resize['scale'] for resize in scales] == [(150, 75), (200, 100), (250, 125)]
    assert [flip['prob'] for flip in flips] == [0.0, 1.0]
    assert labels[0]['type'] == 'LoadAnnotations'
    assert pack[0]['meta_keys'] == ('img_path', 'flip', 'flip_direction')
    assert pipeline[1]['scale'] == (200, 100) and len(pipeline) == 4
