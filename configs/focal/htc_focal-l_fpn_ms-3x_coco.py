"""HTC with Focal-L on COCO, 36 epochs.

Focal Transformer, Table 11: 56.9 box AP, 49.8 mask AP, at six scales 57.9 and 50.8; 265 M and 1165
G FLOPs. Not run by this project. Recipe: appendix A.2, with soft-NMS; drop path as in Focal-B,
since the paper gives none. InstaBoost, which the paper adds, is left out: see the recipe. The
paper starts from Swin-L's ImageNet-22k weights and prints 196 channels; Swin-L has 192, and so has
this.
"""

_base_ = ['../_base_/recipes/htc_ms-3x_coco.py']
# A classifier's checkpoint of this architecture, from ImageNet-22k. Neither the authors' weights
# nor how they made them from Swin-L's is published.
pretrained = 'checkpoints/focal-l_in22k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FocalTransformer',
        arch='large',
        focal_windows=(15, 13, 9, 7),
        expand_always=True,
        neighbor_boundary='mask',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[192, 384, 768, 1536]),
)
