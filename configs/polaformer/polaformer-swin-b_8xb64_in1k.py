"""PolaFormer-Swin-B on ImageNet-1k.

PolaFormer, README: 83.8 % top-1. Not run by this project. Inferred: it trains like FLatten-Swin-B,
on whose code it builds; the drop path is the authors'.
"""

_base_ = ['./polaformer-swin-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='base', drop_path_rate=0.5), head=dict(in_channels=1024))

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512))
auto_scale_lr = dict(base_batch_size=512)
