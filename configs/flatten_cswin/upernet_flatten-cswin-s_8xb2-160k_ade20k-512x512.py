"""UperNet with FLatten-CSwin-S on ADE20K, 160 000 iterations.

No paper reports it. Not run by this project. Recipe as for FLatten-CSwin-T.
"""
_base_ = ['./upernet_flatten-cswin-t_8xb2-160k_ade20k-512x512.py']

pretrained = 'checkpoints/flatten-cswin-s_in1k.pth'
model = dict(backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)))
