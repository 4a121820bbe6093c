"""COCO 2017 boxes at a single scale, 1333 x 800: coco_instance.py without masks."""

_base_ = ['./coco_instance.py']

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
    *_base_.train_pipeline[2:],
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
