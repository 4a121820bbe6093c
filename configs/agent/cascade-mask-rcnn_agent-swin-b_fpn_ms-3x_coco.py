"""Cascade Mask R-CNN with Agent-Swin-B on COCO, 36 epochs.

Agent Attention, README: 52.6 box AP, 45.3 mask AP, 990 G FLOPs at 800 x 1280. Not run by this
project. Larger grids of agents than in the classifier, whose tables are resized when they are
loaded. Inferred: the drop path.
"""

_base_ = ['../_base_/recipes/cascade-mask-rcnn_ms-3x_coco.py']

# A checkpoint of agent-swin-b_8xb64_in1k.py.
pretrained = 'checkpoints/agent-swin-b_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='base',
        attn_types=['A', 'B', 'CC' + 16 * 'S', 'S'],
        mixers=dict(
            A=dict(type='AgentAttention', num_agents=81),
            B=dict(type='AgentAttention', num_agents=144),
            C=dict(type='AgentAttention', num_agents=196),
        ),
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[128, 256, 512, 1024]),
)
