"""Swin-T on ImageNet-1k, the baseline of FLatten-Swin-T.

FLatten Transformer, Table 8 (from Swin's paper): 81.3 % top-1, 29 M parameters, 4.5 G FLOPs; Focal
Transformer, Tables 6 and 7: 81.2 %, 43.7 box AP and 39.8 mask AP in Mask R-CNN 1x. Not run by this
project. Trained like FLatten-Swin-T. Evaluated like Swin's own code, which keeps the aspect ratio
where FLatten's squeezes.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='SSSS',
        img_size=224,
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=768),
)
