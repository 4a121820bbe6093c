"""Semantic FPN with Agent-PVT-S on ADE20K, 40 000 iterations.

Agent Attention, README: 44.18 mIoU, 211 G FLOPs at 2048 x 512. Not run by this project. Larger
grids of agents than in the classifier, whose tables are resized when they are loaded.
"""

_base_ = ['../_base_/recipes/semantic-fpn_40k_ade20k-512x512.py']

# A checkpoint of agent-pvt-s_8xb64_in1k.py.
pretrained = 'checkpoints/agent-pvt-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='small',
        attn_types='ABCC',
        mixers=dict(
            A=dict(type='AgentAttention', num_agents=144),
            B=dict(type='AgentAttention', num_agents=256),
            C=dict(type='AgentAttention', num_agents=784),
        ),
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 320, 512]),
)
