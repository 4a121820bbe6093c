"""HTC with Swin-L on COCO, 36 epochs.

Focal Transformer, Table 11 ("our run"): 55.9 box AP, 48.9 mask AP, at six scales 57.1 and 50.0; 284
M and 1470 G FLOPs, which are those of Swin's HTC++ with a layer of global attention behind the last
stage. Not run by this project. Trained like Focal-L (see htc_focal-l_fpn_ms-3x_coco.py), with
Swin's drop path.
"""

_base_ = ['../_base_/recipes/htc_ms-3x_coco.py']
# Swin-L's official weights from ImageNet-22k, after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin_large_patch4_window7_224_22k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=192, depths=(2, 2, 18, 2), num_heads=(6, 12, 24, 48), mlp_ratio=4.0),
        attn_types='SSSS',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[192, 384, 768, 1536]),
)
