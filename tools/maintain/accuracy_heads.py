"""Models of the table of exported files: their configs, lengths of training and scenes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

from mmflatten.datasets.scenes.build import SceneOptions, build_scenes

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / 'configs'
NUM_LEARNED = 8  # scenes that are learned by heart


class Head(NamedTuple):
    """A model of the table.

    Attributes:
        bases: configs that it inherits.
        epochs: length of the training.
        changes: differences from the model of the config.
        rate: learning rate, None for that of the config.
        scenes: 'boxes', 'panoptic' or 'pixels': annotations that it learns.
        by_heart: it is trained and tested on `NUM_LEARNED` scenes, because minutes are too few
            for it to learn from others.
    """

    bases: tuple[str, ...]
    epochs: int
    changes: dict[str, Any] = {}
    rate: float | None = None
    scenes: str = 'boxes'
    by_heart: bool = False


def learned_scenes(root: Path, number: int = NUM_LEARNED) -> Path:
    """Write scenes of which those of the test are those of the training. Returns the folder."""
    if (root / 'dataset.json').is_file():
        return root
    build_scenes(root, SceneOptions(train=number, val=1, seed=0))
    annotations = root / 'annotations'
    shutil.copy(annotations / 'instances_train.json', annotations / 'instances_val.json')
    for folder in (root / 'images', annotations):
        shutil.rmtree(folder / 'validation')
        shutil.copytree(folder / 'training', folder / 'validation')
    return root


def write_config(head: Head, epochs: int, data: Path, folder: Path) -> Path:
    """Write the config of a head, on these scenes and with this length of the training."""
    data = data.absolute()
    warm_up = dict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end=100)
    if head.by_heart:
        warm_up['end'] = 20
    decay = dict(
        type='CosineAnnealingLR',
        eta_min=1e-5,
        by_epoch=True,
        begin=0,
        end=epochs,
        convert_to_iter_based=True,
    )
    every = epochs if head.by_heart else 1
    # One process loads faster than two cores train.
    loading = dict(num_workers=0, persistent_workers=False)
    values = dict(
        _base_=[str(CONFIGS / base) for base in head.bases],
        model=head.changes,
        train_cfg=dict(
            type='EpochBasedTrainLoop',
            max_epochs=epochs,
            val_interval=epochs + 1,
            _delete_=True,
        ),
        param_scheduler=[warm_up, decay],
        default_hooks=dict(checkpoint=dict(interval=every, by_epoch=True, max_keep_ckpts=1)),
        log_processor=dict(by_epoch=True),
        train_dataloader=dict(
            **loading,
            sampler=dict(type='DefaultSampler', shuffle=True),
            dataset=dict(data_root=f'{data}/'),
        ),
        val_dataloader=dict(**loading, dataset=dict(data_root=f'{data}/')),
        test_dataloader=dict(**loading, dataset=dict(data_root=f'{data}/')),
    )
    for name in ('val_evaluator', 'test_evaluator'):
        values[name] = _annotations(head.scenes, data / 'annotations')
    if head.rate is not None:
        values['optim_wrapper'] = dict(optimizer=dict(lr=head.rate))
    file = folder / 'config.py'
    file.write_text(''.join(f'{name} = {value!r}\n' for name, value in values.items()))
    return file


def _annotations(scenes: str, folder: Path) -> dict[str, str]:
    """Return the files of a metric. That of pixels reads none."""
    if scenes == 'boxes':
        return dict(ann_file=str(folder / 'instances_val.json'))
    if scenes == 'panoptic':
        file = str(folder / 'panoptic_val.json')
        return dict(ann_file=file, seg_prefix=f'{folder / "panoptic_val"}/')
    return {}


def _box_head(deviation: float) -> dict[str, Any]:
    stds = [deviation, deviation, 2 * deviation, 2 * deviation]
    return dict(
        type='Shared2FCBBoxHead',
        in_channels=48,
        fc_out_channels=256,
        roi_feat_size=7,
        num_classes=10,
        reg_class_agnostic=True,
        bbox_coder=dict(type='DeltaXYWHBBoxCoder', target_means=[0.0] * 4, target_stds=stds),
        loss_cls=dict(type='CrossEntropyLoss', use_sigmoid=False),
        loss_bbox=dict(type='SmoothL1Loss'),
    )


def _stage(iou: float) -> dict[str, Any]:
    """Return the training settings of a stage, in which boxes of this IoU are objects."""
    return dict(
        assigner=dict(
            type='MaxIoUAssigner',
            pos_iou_thr=iou,
            neg_iou_thr=iou,
            min_pos_iou=iou,
            match_low_quality=False,
            ignore_iof_thr=-1,
        ),
        sampler=dict(type='RandomSampler', num=128, pos_fraction=0.25, add_gt_as_proposals=True),
        mask_size=28,
        pos_weight=-1,
        debug=False,
    )


# Cascade of two stages on the heads of Mask R-CNN.
_CASCADE = dict(
    type='CascadeRCNN',
    roi_head=dict(
        type='CascadeRoIHead',
        num_stages=2,
        stage_loss_weights=[1, 0.5],
        bbox_head=[_box_head(0.1), _box_head(0.05)],
    ),
    train_cfg=dict(rcnn=[_stage(0.5), _stage(0.6)]),
)
_NORM = dict(type='GN', num_groups=8)
_REPPOINTS = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=32, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16)),
        attn_types='LLSS',
        img_size=160,
        softmax_window=5,
        drop_path_rate=0.0,
    ),
    neck=dict(in_channels=[64, 128, 256], out_channels=64, num_outs=3, norm_cfg=_NORM),
    bbox_head=dict(
        num_classes=10,
        in_channels=64,
        feat_channels=64,
        point_feat_channels=64,
        corner_channels=32,
        stacked_convs=2,
        point_strides=[8, 16, 32],
        norm_cfg=_NORM,
    ),
    test_cfg=dict(nms_pre=200, max_per_img=20),
)
_REPPOINTS_BASES = (
    '_base_/models/reppoints-v2_bifpn.py',
    '_base_/datasets/digits_coco_det.py',
    '_base_/schedules/digits_15e.py',
    '_base_/default_runtime.py',
)
_DIGITS = 'digits/{}_flatten-swin-nano_{}digits.py'
HEADS = {
    'Mask R-CNN': Head((_DIGITS.format('mask-rcnn', 'fpn_'),), 4),
    'Cascade Mask R-CNN': Head((_DIGITS.format('mask-rcnn', 'fpn_'),), 2, _CASCADE),
    'RetinaNet': Head((_DIGITS.format('retinanet', 'fpn_'),), 5),
    'ATSS': Head((_DIGITS.format('atss', 'fpn_'),), 5),
    'DINO': Head((_DIGITS.format('dino-4scale', ''),), 2),
    'RepPoints V2': Head(_REPPOINTS_BASES, 100, _REPPOINTS, by_heart=True),
    'Mask2Former': Head((_DIGITS.format('mask2former', ''),), 100, rate=1e-3, by_heart=True),
    'EncoderMask': Head((_DIGITS.format('encoder-mask', ''),), 100, rate=1e-3, by_heart=True),
    'Panoptic FPN': Head(
        ('digits/panoptic-fpn_flatten-swin-nano_fpn_digits.py',),
        6,
        scenes='panoptic',
    ),
    'Semantic FPN': Head(
        (_DIGITS.format('semantic-fpn', ''),),
        200,
        rate=1e-3,
        scenes='pixels',
        by_heart=True,
    ),
    'UperNet': Head(
        (_DIGITS.format('upernet', ''),),
        800,
        scenes='pixels',
        by_heart=True,
    ),
}
