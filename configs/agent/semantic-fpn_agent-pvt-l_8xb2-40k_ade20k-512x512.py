"""Semantic FPN with Agent-PVT-L on ADE20K, 40 000 iterations.

Agent Attention, README: 46.52 mIoU, 434 G FLOPs at 2048 x 512. Not run by this project. Larger
grids of agents than in the classifier, whose tables are resized when they are loaded. Inferred: the
drop path.
"""

_base_ = ['../_base_/recipes/semantic-fpn_40k_ade20k-512x512.py']

# A checkpoint of agent-pvt-l_8xb32_in1k.py.
pretrained = 'checkpoints/agent-pvt-l_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='large',
        attn_types='ABCC',
        mixers=dict(
            A=dict(type='AgentAttention', num_agents=144),
            B=dict(type='AgentAttention', num_agents=256),
            C=dict(type='AgentAttention', num_agents=784),
        ),
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 320, 512]),
)
