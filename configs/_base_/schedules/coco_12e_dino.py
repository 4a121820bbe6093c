"""COCO, 12 epochs of AdamW for a total batch of 16; the backbone trains at a tenth of the rate.

Source: DINO's code (`config/DINO/DINO_4scale.py`) and mmdet's `configs/dino`. Every parameter has
weight decay, gradients are clipped at 0.1 over the whole model, and the rate falls tenfold for the
last epoch, without a warm-up.
"""

optim_wrapper = dict(
    type='OptimWrapper',
    constructor='mmflatten.BackboneRateOptimWrapperConstructor',
    optimizer=dict(type='AdamW', lr=1e-4, weight_decay=1e-4, betas=(0.9, 0.999)),
    paramwise_cfg=dict(backbone_lr_mult=0.1),
    clip_grad=dict(max_norm=0.1, norm_type=2),
)

param_scheduler = [
    dict(type='MultiStepLR', by_epoch=True, begin=0, end=12, milestones=[11], gamma=0.1),
]

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=12, val_interval=1)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

auto_scale_lr = dict(base_batch_size=16)
