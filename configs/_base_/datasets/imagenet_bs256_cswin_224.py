"""ImageNet-1k at 224 as in CSwin's own code, evaluated on the centre of an image whose shorter side
is 248.

248 = int(224 / 0.9), CSwin's `crop_pct`; 256 images per GPU. Random crops are resized bilinearly or
bicubically, by chance. So are the steps of RandAugment in CSwin's code; here they are bicubic, as
in imagenet_bs128_224.py.
"""

_base_ = ['./imagenet_bs128_224.py']

train_pipeline = [
    _base_.train_pipeline[0],
    dict(
        type='RandomChoice',
        transforms=[
            [
                dict(
                    type='RandomResizedCrop',
                    scale=224,
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
    dict(type='ResizeEdge', scale=248, edge='short', backend='pillow', interpolation='bicubic'),
    dict(type='CenterCrop', crop_size=224),
    dict(type='PackInputs'),
]
tta_pipeline = [*test_pipeline[:-1], _base_.tta_pipeline[-1]]

train_dataloader = dict(batch_size=256, dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
