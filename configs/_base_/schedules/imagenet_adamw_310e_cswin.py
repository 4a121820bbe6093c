"""ImageNet, 300 epochs of AdamW and 10 more at the lowest rate, with averaged weights: FLatten-CSwin.

The official `cfgs/flatten_cswin_*.yaml` and `main_ema.py`: 20 epochs of warm-up, no gradient clipping. The rate is that
of FLatten-CSwin-S, a total batch of 1024; rates are given for a batch of 512 and scaled with it. The first and the last
one are parts of the highest, so a config of another batch gives `lr` alone.
"""
# One-dimensional tensors and biases get no weight decay.
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=5e-4 * 1024 / 512, weight_decay=0.05, eps=1e-8, betas=(0.9, 0.999)),
    paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0, flat_decay_mult=0.0))

param_scheduler = [
    dict(type='LinearLR', start_factor=1e-6 / 5e-4, by_epoch=True, begin=0, end=20, convert_to_iter_based=True),
    dict(
        type='CosineAnnealingLR',
        eta_min_ratio=1e-5 / 5e-4,
        by_epoch=True,
        begin=0,
        end=300,
        convert_to_iter_based=True),
    dict(type='ConstantLR', factor=1.0, by_epoch=True, begin=300, end=310),
]

# All weights averaged at every iteration from the first on, with a decay of 0.99984 = 1 - momentum. The averages are
# validated, tested, and saved as `state_dict`; the weights themselves are saved as `ema_state_dict`.
custom_hooks = [dict(type='EMAHook', momentum=1.6e-4, update_buffers=True)]

train_cfg = dict(by_epoch=True, max_epochs=310, val_interval=1)
val_cfg = dict()
test_cfg = dict()

auto_scale_lr = dict(base_batch_size=1024)
