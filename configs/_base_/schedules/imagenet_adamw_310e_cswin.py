"""ImageNet, 300 epochs of AdamW and 10 more at the lowest rate for a total batch of 2048, with
averaged weights: CSwin.

The commands of CSwin's README and its `main.py`: 20 epochs of warm-up, no clipping of gradients.
FLatten-CSwin has a schedule of its own: imagenet_adamw_310e_flatten-cswin.py.
"""

# One-dimensional tensors and biases get no weight decay.
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=2e-3, weight_decay=0.05, eps=1e-8, betas=(0.9, 0.999)),
    paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0, flat_decay_mult=0.0),
)

# CSwin steps its rates once an epoch; here they step at every iteration. The lowest rate is 1e-5
# for every batch. The first is 1e-6 in CSwin's code; here it is a part of the highest, so half of
# that for CSwin-B.
param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=1e-6 / 2e-3,
        by_epoch=True,
        begin=0,
        end=20,
        convert_to_iter_based=True,
    ),
    dict(
        type='CosineAnnealingLR',
        eta_min=1e-5,
        by_epoch=True,
        begin=0,
        end=300,
        convert_to_iter_based=True,
    ),
    dict(type='ConstantLR', factor=1.0, by_epoch=True, begin=300, end=310),
]

# All weights averaged at every iteration from the first on, with a decay of 0.99984 = 1 - momentum.
custom_hooks = [dict(type='EMAHook', momentum=1.6e-4, update_buffers=True)]

train_cfg = dict(by_epoch=True, max_epochs=310, val_interval=1)
val_cfg = dict()
test_cfg = dict()

auto_scale_lr = dict(base_batch_size=2048)
