"""RetinaNet with Agent-PVT-M on COCO, 12 epochs.

Agent Attention, README: 45.8 box AP, 382 G FLOPs at 800 x 1280. Not run by this project. Larger
grids of agents than in the classifier, whose tables are resized when they are loaded. Inferred: the
drop path.
"""

_base_ = ['../_base_/recipes/retinanet_1x-pvt_coco.py']

# A checkpoint of agent-pvt-m_8xb64_in1k.py.
pretrained = 'checkpoints/agent-pvt-m_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVT',
        arch='medium',
        attn_types='ABCC',
        mixers=dict(
            A=dict(type='AgentAttention', num_agents=144),
            B=dict(type='AgentAttention', num_agents=256),
            C=dict(type='AgentAttention', num_agents=784),
        ),
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[128, 320, 512]),
)
