"""Single digits cut from the digit scenes, 64 x 64; 64 images per batch. Made by
tools/dataset/prepare_digits.py.
"""

dataset_type = 'CustomDataset'
data_root = 'data/digits'
image_size = 64
classes = tuple('0123456789')
data_preprocessor = dict(
    num_classes=10, mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True
)

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='RandomResizedCrop',
        scale=image_size,
        crop_ratio_range=(0.7, 1.0),
        interpolation='bicubic',
    ),
    dict(type='PackInputs'),  # no flip: a mirrored digit is another sign, or none
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(image_size, image_size), interpolation='bicubic'),
    dict(type='PackInputs'),
]
tta_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='TestTimeAug',
        transforms=[
            # The whole picture and its centre: nothing is mirrored.
            [
                dict(type='Resize', scale=(image_size, image_size), interpolation='bicubic'),
                dict(type='Resize', scale=(72, 72), interpolation='bicubic'),
            ],
            [dict(type='CenterCrop', crop_size=image_size)],
            [dict(type='PackInputs')],
        ],
    ),
]

train_dataloader = dict(
    batch_size=64,
    num_workers=2,
    persistent_workers=True,
    collate_fn=dict(type='default_collate'),
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        data_prefix='crops/train',
        metainfo=dict(classes=classes),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    batch_size=128,
    num_workers=1,
    persistent_workers=True,
    collate_fn=dict(type='default_collate'),
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        data_prefix='crops/val',
        metainfo=dict(classes=classes),
        pipeline=test_pipeline,
    ),
)
test_dataloader = val_dataloader

val_evaluator = dict(type='Accuracy', topk=(1, 5))
test_evaluator = val_evaluator
