"""COCO 2017 boxes, the shorter side at 480 to 960 without crop, tested at 1333 x 800: otherwise
coco_instance.py.
"""

_base_ = ['./coco_instance.py']

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(
        type='RandomChoiceResize',
        scales=[(side, 1333) for side in range(480, 961, 32)],
        keep_ratio=True,
    ),
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
