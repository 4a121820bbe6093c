"""Scenes, 5 epochs, with an optimizer that updates all parameters in one call, on a CPU, too."""

_base_ = ['./digits_6e.py']

train_cfg = dict(max_epochs=5)
optim_wrapper = dict(optimizer=dict(fused=True))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end=100),
    dict(
        type='CosineAnnealingLR',
        eta_min=1e-5,
        by_epoch=True,
        begin=0,
        end=5,
        convert_to_iter_based=True,
    ),
]
