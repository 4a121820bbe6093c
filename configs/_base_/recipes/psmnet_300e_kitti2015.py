"""PSMNet's fine-tuning on KITTI 2015, 300 epochs on a total batch of 12: Adam at 1e-3, 1e-4 after
200.

A config adds `load_from`, a checkpoint of SceneFlow.
"""

_base_ = [
    '../models/psmnet.py',
    '../datasets/kitti_stereo.py',
    '../schedules/stereo_adam_10e.py',
    '../default_runtime.py',
]
param_scheduler = [
    dict(type='MultiStepLR', by_epoch=True, begin=0, end=300, milestones=[200], gamma=0.1)
]
train_cfg = dict(max_epochs=300, val_interval=10)
