"""UperNet with Focal-B on ADE20K, 160 000 iterations.

Focal Transformer, Table 12: 49.0 mIoU, 50.5 with --tta, 126 M and 1354 G FLOPs at 2048 x 512. Not run by this project.
Recipe as for Focal-T.
"""
_base_ = ['./upernet_focal-t_8xb2-160k_ade20k-512x512.py']

pretrained = 'checkpoints/focal-b_in1k.pth'  # yours to give, as for Focal-T
model = dict(
    backbone=dict(arch='base', init_cfg=dict(checkpoint=pretrained)),
    decode_head=dict(in_channels=[128, 256, 512, 1024]),
    auxiliary_head=dict(in_channels=512))
