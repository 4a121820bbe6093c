"""PVT-T on ImageNet-1k, the baseline of FLatten-PVT-T: PVT's own model and recipe.

FLatten Transformer, Table 8 (from PVT's paper): 75.1 % top-1, 13.2 M parameters, 1.9 G FLOPs. Not
run by this project.
Recipe: `configs/pvt/pvt_tiny.py` of whai362/PVT.
FLatten's code has another PVT, without class token: flatten-pvt-t_8xb128_in1k_ssss.py.
"""

_base_ = ['../_base_/recipes/pvt_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='tiny',
        attn_types='SSSS',
        with_cls_token=True,
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=512),
)
