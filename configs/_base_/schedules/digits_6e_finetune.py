"""Scenes, 6 epochs of AdamW for a batch of 4 and a pre-trained backbone, which trains at a tenth of
the rate. The optimizer updates all parameters in one call.
"""

_base_ = ['./digits_6e.py']

optim_wrapper = dict(
    constructor='mmflatten.BackboneRateOptimWrapperConstructor',
    optimizer=dict(lr=1e-3, fused=True),
    paramwise_cfg=dict(backbone_lr_mult=0.1, norm_decay_mult=0.0),
)
