"""ImageNet at 384, 30 epochs of AdamW for a total batch of 256 (8 GPUs x 32 images):
FLatten-CSwin-B.

The official `cfgs/flatten_cswin_b_384.yaml`: 20 epochs and 10 more at the lowest rate, without a
warm-up.
"""

# One-dimensional tensors and biases get no weight decay.
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(
        type='AdamW', lr=5e-6 * 256 / 512, weight_decay=1e-8, eps=1e-8, betas=(0.9, 0.999)
    ),
    paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0, flat_decay_mult=0.0),
)

param_scheduler = [
    dict(
        type='CosineAnnealingLR',
        eta_min_ratio=5e-7 / 5e-6,
        by_epoch=True,
        begin=0,
        end=20,
        convert_to_iter_based=True,
    ),
    dict(type='ConstantLR', factor=1.0, by_epoch=True, begin=20, end=30),
]

# Averaged weights with a decay of 0.99982, as in imagenet_adamw_310e_flatten-cswin.py.
custom_hooks = [dict(type='EMAHook', momentum=1.8e-4, update_buffers=True)]

train_cfg = dict(by_epoch=True, max_epochs=30, val_interval=1)
val_cfg = dict()
test_cfg = dict()

auto_scale_lr = dict(base_batch_size=256)
