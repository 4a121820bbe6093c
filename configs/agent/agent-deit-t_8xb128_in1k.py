"""Agent-DeiT-T on ImageNet-1k.

Agent Attention, README: 74.9 % top-1. Not run by this project. The class token has biases of its
own and is not pooled. Inferred: it trains like DeiT; the drop path is the authors'.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(type='AgentAttention', num_agents=49, num_prefix=1),
        img_size=224,
        drop_path_rate=0.0,
    ),
    head=dict(in_channels=192),
)
