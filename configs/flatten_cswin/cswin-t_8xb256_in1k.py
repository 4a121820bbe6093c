"""CSwin-T on ImageNet-1k, the baseline of FLatten-CSwin-T: CSwin's own recipe.

FLatten Transformer, Table 8 (from CSwin's paper): 82.7 % top-1, 23 M parameters, 4.3 G FLOPs. Not
run by this project. Recipe: the command of CSwin's README for this size.
"""

_base_ = ['../_base_/recipes/cswin_310e_in1k.py']

arch = dict(embed_dims=64, depths=(1, 2, 21, 1), num_heads=(2, 4, 8, 16))
model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch=arch,
        attn_types='SSSS',
        img_size=224,
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=512),
)
