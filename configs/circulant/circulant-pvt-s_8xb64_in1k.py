"""CA-PVT-S on ImageNet-1k.

Circulant Attention, from notes on the paper: 81.7 % top-1. Not run by this project. Inferred: the
other two stages are PVT's without its class token, and it trains like FLatten-PVT-S, of the same
lab.
"""

_base_ = ['./circulant-pvt-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='small'))

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512))
auto_scale_lr = dict(base_batch_size=512)
