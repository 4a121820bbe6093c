"""PVT-S on ImageNet-1k, the baseline of FLatten-PVT-S: PVT's own model and recipe.

FLatten Transformer, Table 8 (from PVT's paper): 79.8 % top-1, 24.5 M parameters, 3.8 G FLOPs. Not
run by this project.
Recipe: `configs/pvt/pvt_small.py` of whai362/PVT.
"""

_base_ = ['../_base_/recipes/pvt_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='small',
        attn_types='SSSS',
        with_cls_token=True,
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=512),
)
