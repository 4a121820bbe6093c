"""RetinaNet with Focal-S on COCO, 36 epochs.

Focal Transformer, Table 4: 47.3 box AP, 61.7 M parameters, 367 G FLOPs. Not run by this project.
"""
_base_ = ['./retinanet_focal-t_fpn_ms-3x_coco.py']

pretrained = 'checkpoints/focal-s_in1k.pth'  # yours to give, as for Focal-T
model = dict(backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)))
