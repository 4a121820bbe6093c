"""PVTv2-B3 on ImageNet-1k, the baseline of FLatten-PVTv2-B3: PVTv2's own recipe.

FLatten Transformer, Table 8 (from PVTv2's paper): 83.2 % top-1, 45.2 M parameters, 6.9 G FLOPs.
Not run by this project. Recipe: `configs/pvt_v2/pvt_v2_b3.py` of whai362/PVT.
"""

_base_ = ['../_base_/recipes/pvt_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVTv2',
        arch='b3',
        attn_types='SSSS',
        img_size=224,
        drop_path_rate=0.3,
    ),
    head=dict(in_channels=512),
)

optim_wrapper = dict(clip_grad=dict(max_norm=1.0))
