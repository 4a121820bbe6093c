"""ImageNet-1k at 384 for fine-tuning: 32 images per GPU, evaluated on the whole image squeezed to
384 x 384.

FLatten-Swin and L2ViT test this way at 384. Training augmentation as in imagenet_bs128_224.py.
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
        type='Resize', scale=(384, 384), keep_ratio=False, backend='pillow', interpolation='bicubic'
    ),
    dict(type='PackInputs'),
]
tta_pipeline = [*test_pipeline[:-1], _base_.tta_pipeline[-1]]

train_dataloader = dict(batch_size=32, dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(batch_size=32, dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
