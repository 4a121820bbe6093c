"""ADE20K, crops of 640 x 640, tested whole at 2560 x 640: the size of Swin-L and Focal-L.

Folders, batch and the rest as in ade20k_512x512.py.
"""

_base_ = ['./ade20k_512x512.py']

crop_size = (640, 640)
train_pipeline = [
    *_base_.train_pipeline[:2],
    dict(type='RandomResize', scale=(2560, 640), ratio_range=(0.5, 2.0), keep_ratio=True),
    dict(type='RandomCrop', crop_size=crop_size, cat_max_ratio=0.75),
    *_base_.train_pipeline[4:],
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(2560, 640), keep_ratio=True),
    *_base_.test_pipeline[2:],
]
tta_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='TestTimeAug',
        transforms=[
            [
                dict(type='Resize', scale=(int(2560 * ratio), int(640 * ratio)), keep_ratio=True)
                for ratio in [0.5, 0.75, 1.0, 1.25, 1.5, 1.75]
            ],
            *_base_.tta_pipeline[-1].transforms[1:],
        ],
    ),
]

train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
