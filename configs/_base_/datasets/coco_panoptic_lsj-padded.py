"""COCO 2017 panoptic segments with large-scale jitter: resized by 0.1 to 2.0 of 1024 and cropped;
the model pads the crops. Tested as coco_panoptic.py; 2 images per GPU, counted in iterations.
"""

_base_ = ['./coco_panoptic.py']

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='mmflatten.LoadPanopticAnnotations'),
    dict(type='RandomFlip', prob=0.5),
    dict(type='RandomResize', scale=(1024, 1024), ratio_range=(0.1, 2.0), keep_ratio=True),
    dict(
        type='RandomCrop',
        crop_type='absolute',
        crop_size=(1024, 1024),
        recompute_bbox=True,
        allow_negative_crop=True,
    ),
    dict(type='PackDetInputs'),
]
train_dataloader = dict(
    sampler=dict(type='InfiniteSampler', shuffle=True), dataset=dict(pipeline=train_pipeline)
)
