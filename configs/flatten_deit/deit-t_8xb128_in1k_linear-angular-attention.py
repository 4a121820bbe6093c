"""DeiT-T with linear angular attention (Castling-ViT) in all blocks.

FLatten Transformer, Table 3a: 70.8 % top-1, 5.7 M parameters, 1.1 G FLOPs (FLatten-DeiT-T: 74.1). Not run by this
project. This is the attention's linear part; its sparse auxiliary branch, which training drives to zero, is left out.
"""
_base_ = ['./flatten-deit-t_8xb128_in1k.py']

model = dict(backbone=dict(linear_attention=dict(type='LinearAngularAttention')))
