"""Agent-PVT-M on ImageNet-1k at 256 x 256.

Agent Attention, README: 83.8 % top-1, 36.1 M parameters, 9.2 G FLOPs. Not run by this project. The
schedule is that of this size at 224, as in the released configuration.
"""

_base_ = ['../_base_/recipes/flatten-pvt_310e_in1k-256px.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='medium',
        attn_types='ABCC',
        mixers=dict(
            A=dict(type='AgentAttention', num_agents=9),
            B=dict(type='AgentAttention', num_agents=16),
            C=dict(type='AgentAttention', num_agents=49),
        ),
        img_size=256,
        drop_path_rate=0.3,
    ),
    head=dict(in_channels=512),
)

optim_wrapper = dict(clip_grad=dict(max_norm=1.0))
