"""RepPoints V2 with Swin-T on COCO, 36 epochs, the baseline of Focal-T.

Focal Transformer, Table 5: 50.0 box AP, 44.1 M and 437 G FLOPs. Not run by this project. Trained like Focal-T.
"""
_base_ = ['../_base_/recipes/reppoints-v2_ms-3x_coco.py']

# A checkpoint of swin-t_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='SSSS',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.')),
    neck=dict(in_channels=[192, 384, 768]))
