"""UperNet with FLatten-CSwin-T on ADE20K, 160 000 iterations.

No paper reports it. Not run by this project. Recipe: that of FLatten-Swin-T, which is the same lab's Agent-Attention
with Swin.
"""
_base_ = [
    '../_base_/models/upernet.py', '../_base_/datasets/ade20k_512x512.py', '../_base_/schedules/ade20k_160k.py',
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
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.')),
    decode_head=dict(in_channels=[64, 128, 256, 512]),
    auxiliary_head=dict(in_channels=256))
