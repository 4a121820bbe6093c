"""RetinaNet with Agent-PVT-T on COCO, 12 epochs.

Agent Attention, README: 40.3 box AP, 211 G FLOPs at 800 x 1280. Not run by this project. Larger
grids of agents than in the classifier, whose tables are resized when they are loaded.
"""

_base_ = ['../_base_/recipes/retinanet_1x-pvt_coco.py']

# A checkpoint of agent-pvt-t_8xb128_in1k.py.
pretrained = 'checkpoints/agent-pvt-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='tiny',
        attn_types='ABCC',
        mixers=dict(
            A=dict(type='AgentAttention', num_agents=144),
            B=dict(type='AgentAttention', num_agents=256),
            C=dict(type='AgentAttention', num_agents=784),
        ),
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[128, 320, 512]),
)
