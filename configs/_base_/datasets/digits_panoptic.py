"""Panoptic digit scenes, 160 x 160; 8 scenes per batch. Made by `mmflatten data digits --panoptic`.

Ten things, the digits, and four kinds of stuff behind them. The soft rims of the digits are void.
"""

dataset_type = 'mmflatten.PanopticDataset'
data_root = 'data/digits_panoptic/'
image_size = (160, 160)
thing_classes = tuple('0123456789')
stuff_classes = ('photograph', 'stripes', 'checks', 'dots')
metainfo = dict(
    classes=thing_classes + stuff_classes,
    thing_classes=thing_classes,
    stuff_classes=stuff_classes,
    palette=[
        (230, 25, 75),
        (60, 180, 75),
        (255, 225, 25),
        (0, 130, 200),
        (245, 130, 48),
        (145, 30, 180),
        (70, 240, 240),
        (240, 50, 230),
        (210, 245, 60),
        (250, 190, 212),
        (60, 60, 60),
        (0, 128, 128),
        (170, 110, 40),
        (128, 0, 0),
    ],
)

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='mmflatten.LoadPanopticAnnotations'),
    dict(type='Resize', scale=image_size, keep_ratio=True),
    dict(type='PackDetInputs'),  # no flip: a mirrored digit is another sign, or none
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=image_size, keep_ratio=True),
    # After the resize: drawings and files have the size of the original image.
    dict(type='mmflatten.LoadPanopticAnnotations'),
    dict(
        type='PackDetInputs',
        meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor'),
    ),
]

train_dataloader = dict(
    batch_size=8,
    num_workers=2,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        metainfo=metainfo,
        ann_file='annotations/panoptic_train.json',
        data_prefix=dict(img='images/training/', seg='annotations/panoptic_train/'),
        filter_cfg=dict(filter_empty_gt=True, min_size=32),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    batch_size=8,
    num_workers=1,
    persistent_workers=True,
    drop_last=False,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        metainfo=metainfo,
        ann_file='annotations/panoptic_val.json',
        data_prefix=dict(img='images/validation/', seg='annotations/panoptic_val/'),
        test_mode=True,
        pipeline=test_pipeline,
    ),
)
test_dataloader = val_dataloader

val_evaluator = dict(
    type='mmflatten.PanopticMetric',
    ann_file=data_root + 'annotations/panoptic_val.json',
    seg_prefix=data_root + 'annotations/panoptic_val/',
)
test_evaluator = val_evaluator
