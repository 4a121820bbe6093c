"""ImageNet-1k at 256 as the code of FLatten's lab evaluates it: squeezed to a square of 292, then
the centre.

292 = int(256 / 224 * 256). Otherwise as imagenet_bs128_224.py, with 64 images per GPU.
"""

_base_ = ['./imagenet_bs128_224.py']

image_size = 256
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='RandomResizedCrop', scale=image_size, backend='pillow', interpolation='bicubic'),
    *_base_.train_pipeline[2:],
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='Resize', scale=(292, 292), keep_ratio=False, backend='pillow', interpolation='bicubic'
    ),
    dict(type='CenterCrop', crop_size=image_size),
    dict(type='PackInputs'),
]
tta_pipeline = [*test_pipeline[:-1], _base_.tta_pipeline[-1]]

train_dataloader = dict(batch_size=64, dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(batch_size=64, dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
