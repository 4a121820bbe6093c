"""COCO 2017 boxes and masks, trained with the shorter side at 640 to 800 (PVT's 3x), tested at 1333
x 800.
"""

_base_ = ['./coco_instance.py']

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True, with_mask=True),
    dict(type='RandomResize', scale=[(1333, 640), (1333, 800)], keep_ratio=True),
    *_base_.train_pipeline[3:],
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
