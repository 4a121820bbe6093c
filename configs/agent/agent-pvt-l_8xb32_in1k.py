"""Agent-PVT-L on ImageNet-1k.

Agent Attention, README: 83.7 % top-1. Not run by this project. Inferred: it trains like
FLatten-PVT-L, of the same lab; the drop path is the authors'.
"""

_base_ = ['./agent-pvt-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='large', drop_path_rate=0.3))

train_dataloader = dict(batch_size=32)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 256 / 512), clip_grad=dict(max_norm=1.0))
auto_scale_lr = dict(base_batch_size=256)
