"""Swin-T with enhanced linear attention (EfficientViT).

FLatten Transformer, Table 3b: 81.8 % top-1, 29 M parameters, 4.5 G FLOPs (FLatten-Swin-T: 82.1).
Not run by this project. The paper does not say in which stages; here in the first two, over the
whole map, as in FLatten-Swin-T. Nor which convolution: here a 5 x 5 one of the values, as in
deit-t_8xb128_in1k_enhanced-linear-attention.py.
"""

_base_ = ['../_base_/recipes/flatten-swin_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='LLSS',
        linear_attention=dict(type='EnhancedLinearAttention'),
        img_size=224,
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=768),
)
