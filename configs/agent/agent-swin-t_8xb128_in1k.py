"""Agent-Swin-T on ImageNet-1k.

Agent Attention, README: 82.6 % top-1. Not run by this project. Inferred: it trains like
FLatten-Swin-T, of the same lab; the drop path is the authors'.
"""

_base_ = ['../_base_/recipes/flatten-swin_300e_in1k.py']

# Agent attention over the whole map in three stages: 3 x 3, 4 x 4 and 7 x 7 agents. The softmax of
# the last one keeps windows of 7 x 7.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='ABCS',
        mixers=dict(
            A=dict(type='AgentAttention', num_agents=9),
            B=dict(type='AgentAttention', num_agents=16),
            C=dict(type='AgentAttention', num_agents=49),
        ),
        img_size=224,
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=768),
)
