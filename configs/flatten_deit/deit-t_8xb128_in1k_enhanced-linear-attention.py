"""DeiT-T with enhanced linear attention (EfficientViT) in all blocks.

FLatten Transformer, Table 3a: 72.9 % top-1, 5.8 M parameters, 1.1 G FLOPs (FLatten-DeiT-T: 74.1).
Not run by this project. EfficientViT, the paper's source, has ReLU linear attention and a 3 x 3
depthwise convolution in each feed-forward network. The paper does not say what it ran: a 5 x 5 one
of the values has 5.8 M, too, with --cfg-options model.backbone.conv_ffn=False
model.backbone.linear_attention="{'type': 'EnhancedLinearAttention'}".
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(type='LinearAttention', feature_map='relu'),
        conv_ffn=True,
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=192),
)
