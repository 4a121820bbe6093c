"""Agent-PVT-S on ImageNet-1k.

Agent Attention, README: 82.2 % top-1. Not run by this project. Inferred: it trains like
FLatten-PVT-S, of the same lab; the drop path is the authors'.
"""

_base_ = ['./agent-pvt-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='small'))

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512))
auto_scale_lr = dict(base_batch_size=512)
