"""RetinaNet with Focal-S on COCO, 12 epochs.

Focal Transformer, Table 10: 45.6 box AP, 61.7 M parameters, 367 G FLOPs. Not run by this project.
"""
_base_ = ['./retinanet_focal-t_fpn_1x_coco.py']

pretrained = 'checkpoints/focal-s_in1k.pth'  # yours to give, as for Focal-T
model = dict(backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)))
