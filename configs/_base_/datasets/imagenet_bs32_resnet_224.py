"""ImageNet-1k at 224 for residual networks: crops and mirror images alone, resized bilinearly; 32
images per GPU.
"""

_base_ = ['./imagenet_bs128_224.py']

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='RandomResizedCrop',
        scale=_base_.image_size,
        backend='pillow',
        interpolation='bilinear',
    ),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='PackInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='ResizeEdge', scale=256, edge='short', backend='pillow', interpolation='bilinear'),
    *_base_.test_pipeline[2:],
]
tta_pipeline = [*test_pipeline[:-1], _base_.tta_pipeline[-1]]

train_dataloader = dict(batch_size=32, dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(batch_size=32, dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
