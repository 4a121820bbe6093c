"""InLine-PVT-S on ImageNet-1k.

InLine, README: 82.0 % top-1. Not run by this project. Inferred: it trains like FLatten-PVT-S, of
the same lab; the drop path is the authors'.
"""

_base_ = ['./inline-pvt-t_8xb128_in1k.py']

model = dict(backbone=dict(arch=dict(depths=(3, 4, 6, 3))))

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512))
auto_scale_lr = dict(base_batch_size=512)
