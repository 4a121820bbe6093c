"""Swin-T with enhanced linear attention (EfficientViT).

FLatten Transformer, Table 3b: 81.8 % top-1, 29 M parameters, 4.5 G FLOPs (FLatten-Swin-T: 82.1).
Not run by this project. The paper does not say in which stages; here in the first two, over the
whole map, as in FLatten-Swin-T. Nor which convolution: here EfficientViT's, 3 x 3 in each
feed-forward network of these stages; a 5 x 5 one of the values with --cfg-options
model.backbone.conv_ffn=False model.backbone.linear_attention="{'type': 'EnhancedLinearAttention'}".
"""

_base_ = ['../_base_/recipes/flatten-swin_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='LLSS',
        linear_attention=dict(type='LinearAttention', feature_map='relu'),
        conv_ffn=True,
        img_size=224,
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=768),
)
