"""ADE20K, 160 000 iterations of AdamW for a total batch of 16 (8 GPUs x 2 images): UperNet with
Swin and its like.
"""

# Norms get no weight decay, nor do position tables, as in coco_1x.py.
paramwise_cfg = dict(
    custom_keys={
        'relative_position_bias': dict(decay_mult=0.0),
        'neighbor_bias': dict(decay_mult=0.0),
        'pooled_bias': dict(decay_mult=0.0),
        'key_bias': dict(decay_mult=0.0),
        'query_bias': dict(decay_mult=0.0),
        'norm': dict(decay_mult=0.0),
    }
)

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=6e-5, weight_decay=0.01, betas=(0.9, 0.999)),
    paramwise_cfg=paramwise_cfg,
)

# The decay begins under the warm-up, which multiplies it, as in the code that the recipe was
# written for (mmseg 0.x).
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-6, by_epoch=False, begin=0, end=1500),
    dict(type='PolyLR', power=1.0, eta_min=0.0, by_epoch=False, begin=0, end=160000),
]

train_cfg = dict(type='IterBasedTrainLoop', max_iters=160000, val_interval=16000)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
log_processor = dict(by_epoch=False)

auto_scale_lr = dict(base_batch_size=16)
