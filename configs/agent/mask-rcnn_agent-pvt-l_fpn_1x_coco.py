"""Mask R-CNN with Agent-PVT-L on COCO, 12 epochs.

Agent Attention, README: 46.9 box AP, 42.8 mask AP, 68 M parameters, 510 G FLOPs at 800 x 1280. Not
run by this project. Larger grids of agents than in the classifier, whose tables are resized when
they are loaded. Inferred: the drop path.
"""

_base_ = ['../_base_/recipes/mask-rcnn_1x-pvt_coco.py']

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
