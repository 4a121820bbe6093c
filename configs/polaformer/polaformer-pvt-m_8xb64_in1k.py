"""PolaFormer-PVT-M on ImageNet-1k.

PolaFormer has this size; no accuracy of it is recorded here. Not run by this project. Inferred: it
trains like FLatten-PVT-M, on whose code it builds.
"""

_base_ = ['./polaformer-pvt-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='medium', drop_path_rate=0.3))

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512), clip_grad=dict(max_norm=1.0))
auto_scale_lr = dict(base_batch_size=512)
