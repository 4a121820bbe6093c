"""ImageNet-1k at 384 as the official FLatten-CSwin code evaluates it: squeezed to 438 x 438, then the centre 384.

438 = int(256 / 224 * 384). Training and batch as in imagenet_bs32_384.py.
"""
_base_ = ['./imagenet_bs32_384.py']

test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(438, 438), keep_ratio=False, backend='pillow', interpolation='bicubic'),
    dict(type='CenterCrop', crop_size=384),
    dict(type='PackInputs'),
]
tta_pipeline = [
    *test_pipeline[:-1],
    dict(
        type='TestTimeAug',
        transforms=[[dict(type='RandomFlip', prob=1.), dict(type='RandomFlip', prob=0.)], [dict(type='PackInputs')]]),
]
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
