"""RepPoints V2 with Swin-T on COCO, 36 epochs, the baseline of Focal-T.

Focal Transformer, Table 5: 50.0 box AP, 44.1 M and 437 G FLOPs. Not run by this project. This is
Swin's release
`reppoitsv2_swin_tiny_patch4_window7_mstrain_480_960_giou_gfocal_bifpn_adamw_3x_coco`, with the same
50.0 AP, which its README gives as 45 M and 283 G; counted here: 44.92 M, and 282.9 G the papers'
way with products of activations (282.0 G MACs).
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
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[192, 384, 768]),
)
