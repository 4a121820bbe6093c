"""DeiT-T with linear attention and the depthwise convolution, without the focused function.

FLatten Transformer, Figure 8 and appendix B ("introduce f_p and DWC separately"), which print no
accuracy. Not run by this project. The positional encoding of the keys comes with the convolution,
as in flatten-deit-t_8xb128_in1k.py.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(type='FocusedLinearAttention', focusing_factor=None),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=192),
)
