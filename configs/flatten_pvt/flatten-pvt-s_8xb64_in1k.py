"""FLatten-PVT-S on ImageNet-1k.

FLatten Transformer, Table 8: 81.7 % top-1, 21.7 M parameters, 4.0 G FLOPs. Not run by this project.
"""

_base_ = ['./flatten-pvt-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='small'))

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512))
auto_scale_lr = dict(base_batch_size=512)
