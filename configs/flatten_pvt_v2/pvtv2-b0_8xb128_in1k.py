"""PVTv2-B0 on ImageNet-1k, the baseline of FLatten-PVTv2-B0: PVTv2's own recipe.

FLatten Transformer, Table 8 (from PVTv2's paper): 70.5 % top-1, 3.4 M parameters, 0.6 G FLOPs.
Not run by this project. Recipe: `configs/pvt_v2/pvt_v2_b0.py` of whai362/PVT.
With FLatten's recipe: flatten-pvtv2-b0_8xb128_in1k_ssss.py.
"""

_base_ = ['../_base_/recipes/pvt_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVTv2',
        arch='b0',
        attn_types='SSSS',
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=256),
)
