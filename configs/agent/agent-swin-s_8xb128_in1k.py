"""Agent-Swin-S on ImageNet-1k.

Agent Attention, README: 83.7 % top-1. Not run by this project. Inferred: it trains like
FLatten-Swin-S, of the same lab; the drop path is the authors'.
"""

_base_ = ['./agent-swin-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='small', attn_types='ABSS', drop_path_rate=0.3))
