"""RetinaNet with PVT-T on COCO, 12 epochs.

No paper here reports it. Not run by this project. Recipe as with FLatten-PVT-T.
"""
_base_ = ['./retinanet_flatten-pvt-t_fpn_1x_coco.py']

pretrained = 'checkpoints/pvt-t_in1k.pth'  # yours to give, as there
model = dict(backbone=dict(attn_types='SSSS', init_cfg=dict(checkpoint=pretrained)))
