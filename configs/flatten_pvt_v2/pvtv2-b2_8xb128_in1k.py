"""PVTv2-B2 on ImageNet-1k, the baseline of FLatten-PVTv2-B2: PVTv2's own recipe.

FLatten Transformer, Table 8 (from PVTv2's paper): 82.0 % top-1, 25.4 M parameters, 4.0 G FLOPs.
Not run by this project. Recipe: `configs/pvt_v2/pvt_v2_b2.py` of whai362/PVT.
"""

_base_ = ['../_base_/recipes/pvt_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVTv2',
        arch='b2',
        attn_types='SSSS',
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=512),
)
