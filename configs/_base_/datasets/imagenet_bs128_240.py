"""ImageNet-1k at 240, evaluated on the centre of an image whose shorter side is 274.

Otherwise as imagenet_bs128_224.py.
"""

_base_ = ['./imagenet_bs128_224.py']

image_size = 240
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='RandomResizedCrop', scale=image_size, backend='pillow', interpolation='bicubic'),
    *_base_.train_pipeline[2:],
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='ResizeEdge', scale=274, edge='short', backend='pillow', interpolation='bicubic'),
    dict(type='CenterCrop', crop_size=image_size),
    dict(type='PackInputs'),
]
tta_pipeline = [*test_pipeline[:-1], _base_.tta_pipeline[-1]]

train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
