"""DeiT-T with linear attention of ReLU features in all blocks.

FLatten Transformer, Table 4, first row: 70.5 % top-1, 5.7 M parameters, 1.1 G FLOPs. Not run by this project.
"""
_base_ = ['./flatten-deit-t_8xb128_in1k.py']

# Focused linear attention without its focused function, depthwise convolution and positional encoding.
linear_attention = dict(type='FocusedLinearAttention', focusing_factor=None, kernel_size=None)
model = dict(backbone=dict(linear_attention=linear_attention))
