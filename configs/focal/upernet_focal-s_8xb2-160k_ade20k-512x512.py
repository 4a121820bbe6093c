"""UperNet with Focal-S on ADE20K, 160 000 iterations.

Focal Transformer, Table 12: 48.0 mIoU, 50.0 with --tta, 85 M and 1130 G FLOPs at 2048 x 512. Not run by this project.
Recipe as for Focal-T.
"""
_base_ = ['./upernet_focal-t_8xb2-160k_ade20k-512x512.py']

pretrained = 'checkpoints/focal-s_in1k.pth'  # yours to give, as for Focal-T
model = dict(backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)))
