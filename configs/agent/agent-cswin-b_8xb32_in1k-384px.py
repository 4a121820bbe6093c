"""Agent-CSwin-B on ImageNet-1k at 384 x 384, fine-tuned from 224 x 224 for 30 epochs.

Agent Attention, README: 85.8 % top-1, 73 M parameters, 46.3 G FLOPs. Not run by this project.
Recipe: the released configuration, 20 epochs and 10 more at the lowest rate, with averaged weights.
It starts from `load_from`, a checkpoint of agent-cswin-b_8xb64_in1k.py, whose tables of biases are
resized when they are loaded.
"""

_base_ = ['../_base_/recipes/flatten-cswin_30e_in1k-384px.py']
load_from = 'checkpoints/agent-cswin-b_in1k.pth'

model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch='base',
        attn_types='ABSS',
        mixers=dict(
            A=dict(type='AgentAttention', num_agents=9, kernel_size=None),
            B=dict(type='AgentAttention', num_agents=16, kernel_size=None),
        ),
        img_size=384,
        softmax_split=(1, 2, 12, 12),
        drop_path_rate=0.7,
    ),
    head=dict(in_channels=768),
)

custom_hooks = [dict(type='EMAHook', momentum=2e-4, update_buffers=True)]  # a decay of 0.9998
