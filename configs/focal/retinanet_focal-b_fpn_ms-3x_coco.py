"""RetinaNet with Focal-B on COCO, 36 epochs.

Focal Transformer, Table 4: 46.9 box AP, 100.8 M parameters, 514 G FLOPs. Not run by this project.
"""
_base_ = ['./retinanet_focal-t_fpn_ms-3x_coco.py']

pretrained = 'checkpoints/focal-b_in1k.pth'  # yours to give, as for Focal-T
model = dict(
    backbone=dict(arch='base', drop_path_rate=0.3, init_cfg=dict(checkpoint=pretrained)),
    neck=dict(in_channels=[256, 512, 1024]))
