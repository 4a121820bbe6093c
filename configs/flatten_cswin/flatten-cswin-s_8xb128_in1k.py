"""FLatten-CSwin-S on ImageNet-1k.

FLatten Transformer, Table 8: 83.8 % top-1, 35 M parameters, 6.9 G FLOPs. Not run by this project.
"""

_base_ = ['./flatten-cswin-t_8xb256_in1k.py']

model = dict(backbone=dict(arch='small', drop_path_rate=0.4))

train_dataloader = dict(batch_size=128)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 1024 / 512))
auto_scale_lr = dict(base_batch_size=1024)
