"""ImageNet-1k at 384 as in CSwin's own code, evaluated on the centre of an image whose shorter side
is 384.

32 images per GPU. Trained as in imagenet_bs256_cswin_224.py.
"""

_base_ = ['./imagenet_bs128_224.py']

image_size = 384
train_pipeline = [
    _base_.train_pipeline[0],
    dict(
        type='RandomChoice',
        transforms=[
            [
                dict(
                    type='RandomResizedCrop',
                    scale=384,
                    backend='pillow',
                    interpolation=interpolation,
                )
            ]
            for interpolation in ('bilinear', 'bicubic')
        ],
    ),
    *_base_.train_pipeline[2:],
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='ResizeEdge', scale=384, edge='short', backend='pillow', interpolation='bicubic'),
    dict(type='CenterCrop', crop_size=384),
    dict(type='PackInputs'),
]
tta_pipeline = [*test_pipeline[:-1], _base_.tta_pipeline[-1]]

train_dataloader = dict(batch_size=32, dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(batch_size=32, dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
