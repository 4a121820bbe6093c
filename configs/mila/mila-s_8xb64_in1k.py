"""MILA-S (MLLA) on ImageNet-1k.

MILA, README: 84.4 % top-1, 43 M parameters, 7.3 G FLOPs. Not run by this project. The recipe is
that of the authors' `cfgs/` and `config.py`, Swin's but for MESA: from a quarter of the training
on, averaged weights give a second loss of weight 1.5.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(type='mmflatten.MLLA', arch='small', drop_path_rate=0.3),
    head=dict(in_channels=512),
)

# A decay of 0.9996 for a batch of 4096, 0.99995 for 512.
custom_hooks = [dict(type='mmflatten.MesaEMAHook', weight=1.5, momentum=5e-5)]

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512))
auto_scale_lr = dict(base_batch_size=512)
