"""UperNet with Agent-Swin-T on ADE20K, 160 000 iterations.

Agent Attention, README: 46.68 mIoU, 954 G FLOPs at 2048 x 512. Not run by this project. Larger
grids of agents than in the classifier, whose tables are resized when they are loaded.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of agent-swin-t_8xb128_in1k.py.
pretrained = 'checkpoints/agent-swin-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='ABCS',
        mixers=dict(
            A=dict(type='AgentAttention', num_agents=81),
            B=dict(type='AgentAttention', num_agents=144),
            C=dict(type='AgentAttention', num_agents=196),
        ),
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[96, 192, 384, 768]),
    auxiliary_head=dict(in_channels=384),
)
