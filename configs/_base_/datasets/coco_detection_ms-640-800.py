"""COCO 2017 boxes, trained with the shorter side at 640 to 800 (PVT's 3x), tested at 1333 x 800."""

_base_ = ['./coco_instance.py']

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='RandomResize', scale=[(1333, 640), (1333, 800)], keep_ratio=True),
    *_base_.train_pipeline[3:],
]
test_pipeline = [
    *_base_.test_pipeline[:2],
    dict(type='LoadAnnotations', with_bbox=True),
    _base_.test_pipeline[-1],
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
val_evaluator = dict(metric='bbox')
test_evaluator = val_evaluator
