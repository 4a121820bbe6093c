"""RetinaNet with CSwin-S on COCO, 12 epochs.

The baseline for a comparison in "the exact same settings" (FLatten Transformer, sec. 5.1). Not run
by this project.
"""

_base_ = ['../_base_/recipes/retinanet_1x_coco.py']

# A checkpoint of cswin-s_8xb256_in1k.py.
pretrained = 'checkpoints/cswin-s_in1k.pth'
arch = dict(embed_dims=64, depths=(2, 4, 32, 2), num_heads=(2, 4, 8, 16))
model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch=arch,
        attn_types='SSSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[128, 256, 512]),
)
