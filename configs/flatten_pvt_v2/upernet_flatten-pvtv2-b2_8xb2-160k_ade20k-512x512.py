"""UperNet with FLatten-PVTv2-B2 on ADE20K, 160 000 iterations.

No paper reports it. Not run by this project. Recipe as for B1.
"""
_base_ = ['./upernet_flatten-pvtv2-b1_8xb2-160k_ade20k-512x512.py']

pretrained = 'checkpoints/flatten-pvtv2-b2_in1k.pth'
model = dict(backbone=dict(arch='b2', init_cfg=dict(checkpoint=pretrained)))
