"""COCO 2017 boxes, the shorter side at 480 to 960 without crop, tested at 1333 x 800: otherwise coco_detection.py."""
_base_ = ['./coco_detection.py']

train_pipeline = [
    *_base_.train_pipeline[:2],
    dict(type='RandomChoiceResize', scales=[(side, 1333) for side in range(480, 961, 32)], keep_ratio=True),
    *_base_.train_pipeline[3:],
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
