"""COCO 2017 boxes, masks and stuff maps for HTC with Swin-L or Focal-L: many scales up to 1600 x
1400.

data/coco/{train2017,val2017}/*.jpg, data/coco/annotations/instances_{train,val}2017.json, and the
stuff maps of COCO-Stuff: data/coco/stuffthingmaps/train2017/*.png; 2 images per GPU.
Trained with the shorter side at 400 to 1400 and the longer one at 1600 at most; tested at 2100 x
1400; the paper also at six scales, each mirrored too (Focal Transformer, appendix A.2).
"""

dataset_type = 'mmflatten.CheckedCocoDataset'
data_root = 'data/coco/'

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True, with_mask=True, with_seg=True),
    dict(type='RandomResize', scale=[(1600, 400), (1600, 1400)], keep_ratio=True),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackDetInputs'),
]
meta_keys = (
    'img_id',
    'img_path',
    'ori_shape',
    'img_shape',
    'scale_factor',
    'flip',
    'flip_direction',
)
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(2100, 1400), keep_ratio=True),
    dict(type='LoadAnnotations', with_bbox=True, with_mask=True),
    dict(type='PackDetInputs', meta_keys=meta_keys[:5]),
]
tta_scales = [(1800, 1200), (1950, 1300), (2100, 1400), (2200, 1450), (2250, 1500), (2400, 1600)]
tta_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='TestTimeAug',
        transforms=[
            [dict(type='Resize', scale=scale, keep_ratio=True) for scale in tta_scales],
            [dict(type='RandomFlip', prob=1.0), dict(type='RandomFlip', prob=0.0)],
            [dict(type='LoadAnnotations', with_bbox=True)],
            [dict(type='PackDetInputs', meta_keys=meta_keys)],
        ],
    ),
]

train_dataloader = dict(
    batch_size=2,
    num_workers=2,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    batch_sampler=dict(type='AspectRatioBatchSampler'),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='annotations/instances_train2017.json',
        data_prefix=dict(img='train2017/', seg='stuffthingmaps/train2017/'),
        filter_cfg=dict(filter_empty_gt=True, min_size=32),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=2,
    persistent_workers=True,
    drop_last=False,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        ann_file='annotations/instances_val2017.json',
        data_prefix=dict(img='val2017/'),
        test_mode=True,
        pipeline=test_pipeline,
    ),
)
test_dataloader = val_dataloader

val_evaluator = dict(
    type='CocoMetric',
    ann_file=data_root + 'annotations/instances_val2017.json',
    metric=['bbox', 'segm'],
)
test_evaluator = val_evaluator
