"""ImageNet-1k at 224 as the official FLatten code evaluates it: squeezed to a square of 256, then
the centre.

Otherwise as imagenet_bs128_224.py. The square resize ignores the aspect ratio; with the shorter
side at 256 instead, a released FLatten checkpoint gives a slightly different accuracy than the one
its authors report.
"""

_base_ = ['./imagenet_bs128_224.py']

test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='Resize', scale=(256, 256), keep_ratio=False, backend='pillow', interpolation='bicubic'
    ),
    dict(type='CenterCrop', crop_size=224),
    dict(type='PackInputs'),
]
tta_pipeline = [*test_pipeline[:-1], _base_.tta_pipeline[-1]]

val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
