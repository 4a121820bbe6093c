"""Digit scenes with index maps in ADE20K's layout, 160 x 160; 8 scenes per batch, counted in
iterations.

Made by tools/dataset/prepare_digits.py. In the files 0 is not labelled (the soft rim of a digit), 1
is background and 2 to 11 are the digits. ``reduce_zero_label=True``, as for ADE20K, makes 0 the
ignored 255 and the others 0 to 10, so a model has ``num_classes=11``.
"""

dataset_type = 'BaseSegDataset'
data_root = 'data/digits'
image_size = crop_size = (160, 160)
metainfo = dict(
    classes=('background',) + tuple('0123456789'),
    palette=[
        (60, 60, 60),
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
    ],
)

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations'),
    dict(type='Resize', scale=crop_size, keep_ratio=True),
    dict(type='PackSegInputs'),  # no flip: a mirrored digit is another sign, or none
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=crop_size, keep_ratio=True),
    # After the resize: the metric compares in the size of the original image.
    dict(type='LoadAnnotations'),
    dict(type='PackSegInputs'),
]
tta_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='TestTimeAug',
        transforms=[
            [
                dict(type='Resize', scale=scale, keep_ratio=True)
                for scale in [(128, 128), (160, 160), (192, 192)]
            ],
            [dict(type='LoadAnnotations')],
            [dict(type='PackSegInputs')],
        ],
    ),
]

train_dataloader = dict(
    batch_size=8,
    num_workers=2,
    persistent_workers=True,
    sampler=dict(type='InfiniteSampler', shuffle=True),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        metainfo=metainfo,
        img_suffix='.png',
        reduce_zero_label=True,
        data_prefix=dict(img_path='images/training', seg_map_path='annotations/training'),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=1,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        metainfo=metainfo,
        img_suffix='.png',
        reduce_zero_label=True,
        data_prefix=dict(img_path='images/validation', seg_map_path='annotations/validation'),
        pipeline=test_pipeline,
    ),
)
test_dataloader = val_dataloader

val_evaluator = dict(type='mmflatten.IoUMetric', iou_metrics=['mIoU'])
test_evaluator = val_evaluator
