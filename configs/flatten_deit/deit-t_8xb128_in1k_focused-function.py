"""DeiT-T with linear attention and the focused function, without the depthwise convolution.

FLatten Transformer, Table 4, second row: 71.8 % top-1, 5.7 M parameters, 1.1 G FLOPs. Not run by
this project. The third row adds the convolution: flatten-deit-t_8xb128_in1k.py. Its 6.1 M
parameters need the positional encoding of the keys as well, so that comes with the convolution and
is not here.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(type='FocusedLinearAttention', focusing_factor=3, kernel_size=None),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=192),
)
