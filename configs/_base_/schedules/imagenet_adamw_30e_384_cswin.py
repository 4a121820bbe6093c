"""ImageNet at 384, 20 epochs of AdamW and 10 more at the lowest rate, for a total batch of 256 (8
GPUs x 32): CSwin-B.

The command of CSwin's README and its `finetune.py`: no warm-up, no clipping of gradients, and every
parameter decays.
"""

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=5e-6, weight_decay=1e-8, eps=1e-8, betas=(0.9, 0.999)),
)

# CSwin steps its rates once an epoch; here they step at every iteration.
param_scheduler = [
    dict(
        type='CosineAnnealingLR',
        eta_min=5e-7,
        by_epoch=True,
        begin=0,
        end=20,
        convert_to_iter_based=True,
    ),
    dict(type='ConstantLR', factor=1.0, by_epoch=True, begin=20, end=30),
]

# Averaged weights with a decay of 0.9998.
custom_hooks = [dict(type='EMAHook', momentum=2e-4, update_buffers=True)]

train_cfg = dict(by_epoch=True, max_epochs=30, val_interval=1)
val_cfg = dict()
test_cfg = dict()

auto_scale_lr = dict(base_batch_size=256)
