"""DeiT-T with enhanced linear attention (EfficientViT) in all blocks.

FLatten Transformer, Table 3a: 72.9 % top-1, 5.8 M parameters, 1.1 G FLOPs (FLatten-DeiT-T: 74.1). Not run by this
project. The paper does not state the kernel of its depthwise convolution; 5 x 5 gives the 5.8 M parameters.
"""
_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(type='EnhancedLinearAttention', kernel_size=5),
        img_size=224,
        drop_path_rate=0.1),
    head=dict(in_channels=192))
