"""DeiT-T with linear attention and the focused function, without the depthwise convolution.

FLatten Transformer, Table 4, second row: 71.8 % top-1, 5.7 M parameters, 1.1 G FLOPs. Not run by this project.
The third row adds the convolution: flatten-deit-t_8xb128_in1k.py. Its 6.1 M parameters need the positional encoding of
the keys as well, so that comes with the convolution and is not here.
"""
_base_ = ['./flatten-deit-t_8xb128_in1k.py']

linear_attention = dict(type='FocusedLinearAttention', focusing_factor=3, kernel_size=None)
model = dict(backbone=dict(linear_attention=linear_attention))
