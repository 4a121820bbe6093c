"""DeiT-T with Hydra attention in all blocks.

FLatten Transformer, Table 3a: 68.3 % top-1, 5.7 M parameters, 1.1 G FLOPs (FLatten-DeiT-T: 74.1). Not run by this
project.
"""
_base_ = ['./flatten-deit-t_8xb128_in1k.py']

model = dict(backbone=dict(linear_attention=dict(type='HydraAttention')))
