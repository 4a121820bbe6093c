"""ImageNet at 384, 30 epochs of AdamW for a total batch of 256 (8 GPUs x 32 images): Swin-B and
FLatten-Swin-B.

The official `cfgs/flatten_swin_b_384.yaml`: all rates are given for a batch of 512 and scaled with
it.
"""

# As in imagenet_adamw_300e.py.
paramwise_cfg = dict(
    norm_decay_mult=0.0,
    bias_decay_mult=0.0,
    flat_decay_mult=0.0,
    custom_keys={'relative_position_bias': dict(decay_mult=0.0)},
)

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(
        type='AdamW', lr=2e-5 * 256 / 512, weight_decay=1e-8, eps=1e-8, betas=(0.9, 0.999)
    ),
    paramwise_cfg=paramwise_cfg,
    clip_grad=dict(max_norm=5.0),
)

# In so short a training the end of the warm-up lies 6.5 % of the peak below the official rate,
# which drops to the cosine there; after it they differ by 0.06 %.
param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=2e-8 / 2e-5,
        by_epoch=True,
        begin=0,
        end=5,
        convert_to_iter_based=True,
    ),
    dict(
        type='CosineAnnealingLR',
        eta_min_ratio=2e-7 / 2e-5,
        by_epoch=True,
        begin=0,
        end=30,
        convert_to_iter_based=True,
    ),
]

train_cfg = dict(by_epoch=True, max_epochs=30, val_interval=1)
val_cfg = dict()
test_cfg = dict()

auto_scale_lr = dict(base_batch_size=256)
