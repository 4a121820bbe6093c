"""ImageNet-1k at 384 as the official FLatten-CSwin code evaluates it: squeezed to 438 x 438, then
the centre 384.

438 = int(256 / 224 * 384). Training and batch as in imagenet_bs32_384.py.
"""

_base_ = ['./imagenet_bs128_224.py']

image_size = 384
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='RandomResizedCrop', scale=image_size, backend='pillow', interpolation='bicubic'),
    *_base_.train_pipeline[2:],
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='Resize', scale=(438, 438), keep_ratio=False, backend='pillow', interpolation='bicubic'
    ),
    dict(type='CenterCrop', crop_size=image_size),
    dict(type='PackInputs'),
]
tta_pipeline = [*test_pipeline[:-1], _base_.tta_pipeline[-1]]

train_dataloader = dict(batch_size=32, dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(batch_size=32, dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
