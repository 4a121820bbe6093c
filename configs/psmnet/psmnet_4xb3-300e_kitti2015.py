"""PSMNet fine-tuned on KITTI 2015 for 300 epochs: Adam at 1e-3, 1e-4 after 200.

No paper prints a number for this split, the first 160 of the 200 pairs by name: the official code
takes them in the order in which the file system lists them. Not run by this project.
The loss leaves out what lies beyond the model's reach, 192 pixels and more; the official
fine-tuning keeps it. It starts from `load_from`: a checkpoint of psmnet_4xb3-10e_sceneflow.py, or
the official one after
tools/convert_checkpoint.py.
"""

_base_ = [
    '../_base_/models/psmnet.py',
    '../_base_/datasets/kitti_stereo.py',
    '../_base_/schedules/stereo_adam_10e.py',
    '../_base_/default_runtime.py',
]
load_from = 'checkpoints/psmnet_sceneflow.pth'

param_scheduler = [
    dict(type='MultiStepLR', by_epoch=True, begin=0, end=300, milestones=[200], gamma=0.1)
]
train_cfg = dict(max_epochs=300, val_interval=10)
