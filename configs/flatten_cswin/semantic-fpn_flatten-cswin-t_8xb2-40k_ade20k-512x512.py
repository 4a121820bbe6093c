"""Semantic FPN with FLatten-CSwin-T on ADE20K, 40 000 iterations.

No paper reports it. Not run by this project. Recipe: the same lab's Agent-Attention with PVT-T.
"""
_base_ = [
    '../_base_/models/semantic-fpn.py', '../_base_/datasets/ade20k_512x512.py', '../_base_/schedules/ade20k_40k.py',
    '../_base_/default_runtime.py'
]
# Yours to give: a checkpoint of flatten-cswin-t_8xb256_in1k.py, or an official one after tools/convert_checkpoint.py.
# Elsewhere: --cfg-options model.backbone.init_cfg.checkpoint=PATH. From random weights: model.backbone.init_cfg=None.
pretrained = 'checkpoints/flatten-cswin-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch='tiny',
        attn_types='LLSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.')),
    neck=dict(in_channels=[64, 128, 256, 512]))
