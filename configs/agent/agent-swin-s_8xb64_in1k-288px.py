"""Agent-Swin-S on ImageNet-1k at 288 x 288.

Agent Attention, README: 84.1 % top-1, 50 M parameters, 14.6 G FLOPs. Not run by this project.
Images per GPU, drop path and windows are the authors'. Inferred: it trains like Swin, from scratch.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k-288px.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='small',
        attn_types='ABSS',
        mixers=dict(
            A=dict(type='AgentAttention', num_agents=9),
            B=dict(type='AgentAttention', num_agents=16),
        ),
        img_size=288,
        softmax_window=9,
        drop_path_rate=0.3,
    ),
    head=dict(in_channels=768),
)
