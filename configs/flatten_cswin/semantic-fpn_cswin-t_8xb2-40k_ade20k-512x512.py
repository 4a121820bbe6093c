"""Semantic FPN with CSwin-T on ADE20K, 40 000 iterations.

The baseline for a comparison in "the exact same settings" (FLatten Transformer, sec. 5.1). Not run
by this project.
"""

_base_ = ['../_base_/recipes/semantic-fpn_40k_ade20k-512x512.py']

# A checkpoint of cswin-t_8xb256_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/cswin-t_in1k.pth'
arch = dict(embed_dims=64, depths=(1, 2, 21, 1), num_heads=(2, 4, 8, 16))
model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch=arch,
        attn_types='SSSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 256, 512]),
)
