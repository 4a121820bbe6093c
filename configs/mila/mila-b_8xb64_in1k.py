"""MILA-B (MLLA) on ImageNet-1k.

MILA, README: 85.3 % top-1, 96 M parameters, 16.2 G FLOPs. Not run by this project. The recipe is
that of the authors' `cfgs/` and `config.py`, Swin's but for MESA: from a quarter of the training
on, averaged weights give a second loss of weight 2.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(type='mmflatten.MLLA', arch='base', drop_path_rate=0.5),
    head=dict(in_channels=768),
)

# A decay of 0.9996 for a batch of 4096, 0.99995 for 512.
custom_hooks = [dict(type='mmflatten.MesaEMAHook', weight=2.0, momentum=5e-5)]

train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4 * 512 / 512))
auto_scale_lr = dict(base_batch_size=512)
