"""COCO, 36 epochs of AdamW with PVT's rates: otherwise as coco_1x_pvt.py; multi-scale training is
the data set's.
"""

_base_ = ['./coco_1x_pvt.py']

param_scheduler = [
    dict(type='LinearLR', start_factor=0.001, by_epoch=False, begin=0, end=500),
    dict(type='MultiStepLR', by_epoch=True, begin=0, end=36, milestones=[27, 33], gamma=0.1),
]

train_cfg = dict(max_epochs=36)
