"""Agent-PVT-T on ImageNet-1k.

Agent Attention, README: 78.4 % top-1. Not run by this project. Inferred: it trains like
FLatten-PVT-T, of the same lab; the drop path is the authors'.
"""

_base_ = ['../_base_/recipes/flatten-pvt_310e_in1k.py']

# Agent attention over the whole map in all stages, without spatial reduction: 3 x 3, 4 x 4 and
# twice 7 x 7 agents.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='tiny',
        attn_types='ABCC',
        mixers=dict(
            A=dict(type='AgentAttention', num_agents=9),
            B=dict(type='AgentAttention', num_agents=16),
            C=dict(type='AgentAttention', num_agents=49),
        ),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=512),
)
