"""ADE20K, 160 000 iterations of AdamW for a total batch of 16; the backbone trains at a tenth of
the rate.

Source: Mask2Former's code (`configs/ade20k/semantic-segmentation`) and mmseg's
`configs/mask2former`. Norms, position tables and queries get no weight decay, gradients are clipped
at 0.01 over the whole model, and the rate falls by a polynomial of power 0.9, without a warm-up.
"""

no_decay = dict(decay_mult=0.0)
optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmflatten.BackboneRateOptimWrapperConstructor',
    optimizer=dict(type='AdamW', lr=1e-4, weight_decay=0.05, betas=(0.9, 0.999)),
    paramwise_cfg=dict(
        backbone_lr_mult=0.1,
        norm_decay_mult=0.0,
        custom_keys=dict(
            position=no_decay,
            cls_token=no_decay,
            query_embed=no_decay,
            query_feat=no_decay,
            level_embed=no_decay,
        ),
    ),
    clip_grad=dict(max_norm=0.01, norm_type=2),
)

param_scheduler = [
    dict(type='PolyLR', power=0.9, eta_min=0.0, by_epoch=False, begin=0, end=160000),
]

train_cfg = dict(type='IterBasedTrainLoop', max_iters=160000, val_interval=5000)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
log_processor = dict(by_epoch=False)

auto_scale_lr = dict(base_batch_size=16)
