"""Mask R-CNN with Agent-Swin-S on COCO, 12 epochs.

Agent Attention, README: 47.2 box AP, 42.7 mask AP, 364 G FLOPs at 800 x 1280. Not run by this
project. Larger grids of agents than in the classifier, whose tables are resized when they are
loaded.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-1x_coco.py']

# A checkpoint of agent-swin-s_8xb128_in1k.py.
pretrained = 'checkpoints/agent-swin-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='small',
        attn_types='ABSS',
        mixers=dict(
            A=dict(type='AgentAttention', num_agents=81),
            B=dict(type='AgentAttention', num_agents=144),
        ),
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
