"""Scenes, 12 epochs of AdamW for a batch of 4 and a pre-trained backbone, which trains at a tenth
of the rate. The optimizer updates all parameters in one call.
"""

_base_ = ['./digits_6e.py']

train_cfg = dict(max_epochs=12, val_interval=4)
optim_wrapper = dict(
    constructor='mmflatten.BackboneRateOptimWrapperConstructor',
    optimizer=dict(lr=1e-3, fused=True),
    paramwise_cfg=dict(backbone_lr_mult=0.1, norm_decay_mult=0.0),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end=100),
    dict(
        type='CosineAnnealingLR',
        eta_min=1e-5,
        by_epoch=True,
        begin=0,
        end=12,
        convert_to_iter_based=True,
    ),
]
