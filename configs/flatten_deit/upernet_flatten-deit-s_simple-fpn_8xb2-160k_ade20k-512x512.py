"""UperNet with FLatten-DeiT-S and a simple feature pyramid on ADE20K, 160 000 iterations.

No paper reports it. Not run by this project. Recipe as for FLatten-DeiT-T.
"""
_base_ = ['./upernet_flatten-deit-t_simple-fpn_8xb2-160k_ade20k-512x512.py']

pretrained = 'checkpoints/flatten-deit-s_in1k.pth'
model = dict(
    backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)), neck=dict(in_channels=384))
