"""Semantic FPN with FLatten-CSwin-S on ADE20K, 40 000 iterations.

No paper reports it. Not run by this project. Recipe as for FLatten-CSwin-T.
"""
_base_ = ['./semantic-fpn_flatten-cswin-t_8xb2-40k_ade20k-512x512.py']

pretrained = 'checkpoints/flatten-cswin-s_in1k.pth'
model = dict(backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)))
