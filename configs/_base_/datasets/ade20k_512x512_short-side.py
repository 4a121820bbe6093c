"""ADE20K as in ade20k_512x512.py, trained in crops of images whose shorter side is 256 to 1024, the
augmentation of MaskFormer.
"""

_base_ = ['./ade20k_512x512.py']

crop_size = (512, 512)
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations'),
    dict(
        type='RandomChoiceResize',
        scales=[512 * tenths // 10 for tenths in range(5, 21)],
        resize_type='ResizeShortestEdge',
        max_size=2048,
    ),
    dict(type='RandomCrop', crop_size=crop_size, cat_max_ratio=0.75),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PhotoMetricDistortion'),
    dict(type='PackSegInputs'),
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
