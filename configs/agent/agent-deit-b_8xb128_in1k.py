"""Agent-DeiT-B on ImageNet-1k.

Agent Attention, README: 82.0 % top-1. Not run by this project. Inferred from its number
of parameters: the first four blocks have agents, the others softmax. The class token has biases of
its own and is not pooled. Inferred: it trains like DeiT; the drop path is the authors'.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='base',
        attn_types='LLLLSSSSSSSS',
        linear_attention=dict(type='AgentAttention', num_agents=81, num_prefix=1),
        img_size=224,
        drop_path_rate=0.3,
    ),
    head=dict(in_channels=768),
)
