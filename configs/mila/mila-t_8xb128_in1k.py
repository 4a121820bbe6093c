"""MILA-T (MLLA) on ImageNet-1k.

MILA, README: 83.5 % top-1, 25 M parameters, 4.2 G FLOPs. Not run by this project. The recipe is
that of the authors' `cfgs/` and `config.py`, Swin's but for MESA: from a quarter of the training
on, averaged weights give a second loss of weight 1.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(type='mmflatten.MLLA', arch='tiny', drop_path_rate=0.2),
    head=dict(in_channels=512),
)

# A decay of 0.9996 for a batch of 4096, 0.9999 for 1024.
custom_hooks = [dict(type='mmflatten.MesaEMAHook', weight=1.0, momentum=1e-4)]
