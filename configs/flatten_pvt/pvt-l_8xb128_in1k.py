"""PVT-L on ImageNet-1k, the baseline of FLatten-PVT-L: PVT's own model and recipe.

FLatten Transformer, Table 8 (from PVT's paper): 81.7 % top-1, 61.4 M parameters, 9.8 G FLOPs. Not
run by this project.
Recipe: `configs/pvt/pvt_large.py` of whai362/PVT.
"""

_base_ = ['../_base_/recipes/pvt_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='large',
        attn_types='SSSS',
        with_cls_token=True,
        img_size=224,
        drop_path_rate=0.3,
    ),
    head=dict(in_channels=512),
)

optim_wrapper = dict(clip_grad=dict(max_norm=1.0))
