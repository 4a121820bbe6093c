"""Scenes, 4 epochs, with an optimizer that updates all parameters in one call, on a CPU, too."""

_base_ = ['./digits_6e.py']

train_cfg = dict(max_epochs=4)
optim_wrapper = dict(optimizer=dict(lr=3e-3, fused=True))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end=100),
    dict(
        type='CosineAnnealingLR',
        eta_min=1e-5,
        by_epoch=True,
        begin=0,
        end=4,
        convert_to_iter_based=True,
    ),
]
