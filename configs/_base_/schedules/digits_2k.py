"""Digit scenes, 2000 iterations of AdamW for a batch of 8: segmentation."""

train_cfg = dict(type='IterBasedTrainLoop', max_iters=2000, val_interval=500)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
log_processor = dict(by_epoch=False)

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=1e-3, weight_decay=0.05),
    clip_grad=dict(max_norm=5.0),
)

param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end=100),
    dict(type='CosineAnnealingLR', eta_min=1e-5, by_epoch=False, begin=0, end=2000),
]

auto_scale_lr = dict(base_batch_size=8)
