"""ImageNet, 300 epochs of AdamW and 10 more at the lowest rate, for a total batch of 1024:
FLatten-PVT and -PVTv2.

The official `cfgs/flatten_pvt_*.yaml`: 5 epochs of warm-up (the paper's general text says 20 and no
cool-down) and no gradient clipping but for the larger models. All rates are given for a batch of
512 and scaled with it; here the first and the last one are parts of the highest, so a config of
another batch gives `lr` alone.
"""

# One-dimensional tensors and biases get no weight decay; the positions of the tokens do.
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(
        type='AdamW', lr=5e-4 * 1024 / 512, weight_decay=0.05, eps=1e-8, betas=(0.9, 0.999)
    ),
    paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0, flat_decay_mult=0.0),
)

param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=1e-6 / 5e-4,
        by_epoch=True,
        begin=0,
        end=5,
        convert_to_iter_based=True,
    ),
    dict(
        type='CosineAnnealingLR',
        eta_min_ratio=1e-5 / 5e-4,
        by_epoch=True,
        begin=0,
        end=300,
        convert_to_iter_based=True,
    ),
    dict(type='ConstantLR', factor=1.0, by_epoch=True, begin=300, end=310),
]

train_cfg = dict(by_epoch=True, max_epochs=310, val_interval=1)
val_cfg = dict()
test_cfg = dict()

auto_scale_lr = dict(base_batch_size=1024)
