"""UperNet with Swin-L on ADE20K at 640 x 640, 160 000 iterations, from ImageNet-22k weights.

Focal Transformer, Table 12 (from Swin's paper): 52.1 mIoU, 53.5 with --tta; 234 M parameters and
3230 G FLOPs, the latter at 3328 x 640, it seems: there this model has 3231 G. Not run by this
project. Recipe: Swin's. The paper does not say which windows; with 12 x 12 it would be 3344 G.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-640x640.py']
# Swin-L's official weights from ImageNet-22k, after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin_large_patch4_window7_224_22k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=192, depths=(2, 2, 18, 2), num_heads=(6, 12, 24, 48), mlp_ratio=4.0),
        attn_types='SSSS',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[192, 384, 768, 1536]),
    auxiliary_head=dict(in_channels=768),
)
