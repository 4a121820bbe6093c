"""ImageNet-1k at 288: 64 images per GPU, evaluated on the whole image squeezed to 288 x 288.

Agent-Swin-S tests this way at 288. Training augmentation as in imagenet_bs128_224.py.
"""

_base_ = ['./imagenet_bs128_224.py']

image_size = 288
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='RandomResizedCrop', scale=image_size, backend='pillow', interpolation='bicubic'),
    *_base_.train_pipeline[2:],
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='Resize', scale=(288, 288), keep_ratio=False, backend='pillow', interpolation='bicubic'
    ),
    dict(type='PackInputs'),
]
tta_pipeline = [*test_pipeline[:-1], _base_.tta_pipeline[-1]]

train_dataloader = dict(batch_size=64, dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(batch_size=64, dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
