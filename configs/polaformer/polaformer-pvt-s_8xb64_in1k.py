"""PolaFormer-PVT-S on ImageNet-1k.

PolaFormer, README: 81.9 % top-1. Not run by this project. Inferred: it trains like FLatten-PVT-S,
on whose code it builds.
"""

_base_ = ['./polaformer-pvt-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='small'))

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512))
auto_scale_lr = dict(base_batch_size=512)
