"""Agent-Swin-B on ImageNet-1k at 384 x 384, fine-tuned from 224 x 224 for 30 epochs.

Agent Attention, README: 84.9 % top-1. Not run by this project. Inferred: it trains like
FLatten-Swin-B at 384, of the same lab. It starts from `load_from`, a checkpoint of
agent-swin-b_8xb64_in1k.py, whose tables of biases are resized when they are loaded.
"""

_base_ = ['../_base_/recipes/swin_30e_in1k-384px.py']
load_from = 'checkpoints/agent-swin-b_in1k.pth'

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='base',
        attn_types=['A', 'B', 'CC' + 16 * 'S', 'S'],
        mixers=dict(
            A=dict(type='AgentAttention', num_agents=9),
            B=dict(type='AgentAttention', num_agents=16),
            C=dict(type='AgentAttention', num_agents=49),
        ),
        img_size=384,
        softmax_window=12,
        drop_path_rate=0.5,
    ),
    head=dict(in_channels=1024),
)
