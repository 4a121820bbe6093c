"""Mask R-CNN with Agent-PVT-S on COCO, 12 epochs.

Agent Attention, README: 44.5 box AP, 41.2 mask AP, 40 M parameters, 293 G FLOPs at 800 x 1280. Not
run by this project. Larger grids of agents than in the classifier, whose tables are resized when
they are loaded.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x-pvt_coco.py']

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
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[64, 128, 320, 512]),
)
