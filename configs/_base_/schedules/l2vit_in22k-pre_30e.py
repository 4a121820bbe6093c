"""ImageNet-1k, 30 epochs of AdamW for a total batch of 1024: L2ViT fine-tuned from ImageNet-22k.

The commands of the authors' README. The paper (sec. 7) has the same epochs, warm-up, batch and drop
path, but a learning rate of 1e-4, and calls all that Swin's strategy, whose rate is the README's
4e-5 (2e-5 for a batch of 512). 16 GPUs x 64 images, or 8 as in the README, with
`--cfg-options optim_wrapper.accumulative_counts=2 custom_hooks.0.interval=2`.
"""

# What decays, and the moving average, are as in l2vit_in1k_300e.py.
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=4e-5, weight_decay=1e-8, eps=1e-8, betas=(0.9, 0.999)),
    paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0, flat_decay_mult=0.0),
)

param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=4e-8 / 4e-5,
        by_epoch=True,
        begin=0,
        end=5,
        convert_to_iter_based=True,
    ),
    dict(
        type='CosineAnnealingLR',
        eta_min=4e-7,
        by_epoch=True,
        begin=5,
        end=30,
        convert_to_iter_based=True,
    ),
]

custom_hooks = [dict(type='EMAHook', momentum=1 - 0.9999, update_buffers=True, interval=1)]

train_cfg = dict(by_epoch=True, max_epochs=30, val_interval=1)
val_cfg = dict()
test_cfg = dict()

auto_scale_lr = dict(base_batch_size=1024)
