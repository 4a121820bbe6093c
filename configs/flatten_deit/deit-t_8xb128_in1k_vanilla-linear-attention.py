"""DeiT-T with linear attention of ReLU features in all blocks.

FLatten Transformer, Table 4, first row: 70.5 % top-1, 5.7 M parameters, 1.1 G FLOPs. Not run by
this project.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

# Focused linear attention without its focused function, depthwise convolution and positional
# encoding.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(
            type='FocusedLinearAttention', focusing_factor=None, kernel_size=None
        ),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=192),
)
