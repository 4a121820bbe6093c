"""ADE20K, 40 000 iterations of AdamW for a total batch of 16, with rates that decay by layer.

Rates, decay by layer and clipping are those of EoMT's code, whose 31 epochs are 39 000 iterations.
There, the weights of the backbone begin their warm-up after 500 steps of the others; here all
weights warm up over 1500 steps.
"""

optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmflatten.LayerDecayOptimWrapperConstructor',
    optimizer=dict(type='AdamW', lr=1e-4, weight_decay=0.05, betas=(0.9, 0.999)),
    paramwise_cfg=dict(layer_decay_rate=0.8),
    clip_grad=dict(max_norm=0.01, norm_type=2),
)

param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=False, begin=0, end=1500),
    dict(type='PolyLR', power=0.9, eta_min=0.0, by_epoch=False, begin=0, end=40000),
]

train_cfg = dict(type='IterBasedTrainLoop', max_iters=40000, val_interval=4000)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
log_processor = dict(by_epoch=False)

auto_scale_lr = dict(base_batch_size=16)
