"""Swin-T with efficient attention.

FLatten Transformer, Table 3b: 81.0 % top-1, 29 M parameters, 4.5 G FLOPs (FLatten-Swin-T: 82.1). Not run by this
project. The paper does not say in which stages; here in the first two, over the whole map, as in FLatten-Swin-T.
"""
_base_ = ['./flatten-swin-t_8xb128_in1k.py']

model = dict(backbone=dict(linear_attention=dict(type='EfficientAttention')))
