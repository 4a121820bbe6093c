"""Agent-CSwin-T on ImageNet-1k.

Agent Attention, README: 83.1 % top-1. Not run by this project. Inferred: it trains like
FLatten-CSwin-T, of the same lab; the drop path is the authors'.
"""

_base_ = ['../_base_/recipes/flatten-cswin_310e_in1k.py']

# Agents over the whole map in the first two stages; the convolution of the values is CSwin's own
# (LePE).
model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch='tiny',
        attn_types='ABSS',
        mixers=dict(
            A=dict(type='AgentAttention', num_agents=9, kernel_size=None),
            B=dict(type='AgentAttention', num_agents=16, kernel_size=None),
        ),
        img_size=224,
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=512),
)
