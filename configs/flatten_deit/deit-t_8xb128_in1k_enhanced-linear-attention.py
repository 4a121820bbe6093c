"""DeiT-T with enhanced linear attention (EfficientViT) in all blocks.

FLatten Transformer, Table 3a: 72.9 % top-1, 5.8 M parameters, 1.1 G FLOPs (FLatten-DeiT-T: 74.1).
Not run by this project. The paper does not say what it ran. ReLU linear attention with a 5 x 5
depthwise convolution of the values has both printed numbers; EfficientViT's 3 x 3 one in each
feed-forward network has 1.154 G FLOPs, with --cfg-options model.backbone.conv_ffn=True
model.backbone.linear_attention="{'type': 'LinearAttention', 'feature_map': 'relu'}".
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(type='EnhancedLinearAttention'),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=192),
)
