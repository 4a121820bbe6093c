"""PVT-S on ImageNet-1k, the baseline of FLatten-PVT-S.

FLatten Transformer, Table 8 (from PVT's paper): 79.8 % top-1, 24.5 M parameters, 3.8 G FLOPs.
Not run by this project.
"""
_base_ = ['./pvt-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='small'))

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512))
auto_scale_lr = dict(base_batch_size=512)
