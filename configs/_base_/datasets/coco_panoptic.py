"""COCO 2017 panoptic, 80 things and 53 kinds of stuff, 1333 x 800; 2 images per GPU.

data/coco/{train2017,val2017}/*.jpg, data/coco/annotations/panoptic_{train,val}2017.json and the
PNG files in the folders panoptic_{train,val}2017 beside them. Labels 0 to 79 are the things.
"""

dataset_type = 'mmflatten.PanopticDataset'
data_root = 'data/coco/'

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='mmflatten.LoadPanopticAnnotations'),
    dict(type='Resize', scale=(1333, 800), keep_ratio=True),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackDetInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(1333, 800), keep_ratio=True),
    # After the resize: drawings and files have the size of the original image.
    dict(type='mmflatten.LoadPanopticAnnotations'),
    dict(
        type='PackDetInputs',
        meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor'),
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
        ann_file='annotations/panoptic_train2017.json',
        data_prefix=dict(img='train2017/', seg='annotations/panoptic_train2017/'),
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
        ann_file='annotations/panoptic_val2017.json',
        data_prefix=dict(img='val2017/', seg='annotations/panoptic_val2017/'),
        test_mode=True,
        pipeline=test_pipeline,
    ),
)
test_dataloader = val_dataloader

val_evaluator = dict(
    type='mmflatten.PanopticMetric',
    ann_file=data_root + 'annotations/panoptic_val2017.json',
    seg_prefix=data_root + 'annotations/panoptic_val2017/',
)
test_evaluator = val_evaluator
