"""UperNet with Agent-Swin-B on ADE20K, 160 000 iterations.

Agent Attention, README: 48.73 mIoU, 1196 G FLOPs at 2048 x 512. Not run by this project. Larger
grids of agents than in the classifier, whose tables are resized when they are loaded. Inferred: the
drop path.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

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
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[128, 256, 512, 1024]),
    auxiliary_head=dict(in_channels=512),
)
