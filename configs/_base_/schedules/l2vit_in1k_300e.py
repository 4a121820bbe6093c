"""ImageNet, 300 epochs of AdamW for a total batch of 4096 with a moving average of the weights:
L2ViT's Table 9.

32 GPUs x 128 images. The authors' README has 8 GPUs that add up the gradients of 4 batches; with
them give `--cfg-options optim_wrapper.accumulative_counts=4 custom_hooks.0.interval=4`: the batch
norms see the same 128 images.
"""

# What gets no weight decay: one-dimensional tensors and biases. Convolution kernels and the
# temperature of the linear attention, which has the shape (h, 1, 1), do get it, as in the authors'
# code.
paramwise_cfg = dict(norm_decay_mult=0.0, bias_decay_mult=0.0, flat_decay_mult=0.0)

# No clipping of gradients. The authors train in float32.
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=4e-3, weight_decay=0.05, eps=1e-8, betas=(0.9, 0.999)),
    paramwise_cfg=paramwise_cfg,
)

# Both step per iteration, and the cosine begins behind the warm-up. That starts from 0 in the
# authors' code; MMEngine multiplies its way up and needs a start above it.
param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=1e-6,
        by_epoch=True,
        begin=0,
        end=20,
        convert_to_iter_based=True,
    ),
    dict(
        type='CosineAnnealingLR',
        eta_min=1e-6,
        by_epoch=True,
        begin=20,
        end=300,
        convert_to_iter_based=True,
    ),
]

# timm's ModelEma with a decay of 0.9999, statistics of the batch norms included. Validation and the
# `state_dict` of the checkpoints have the averaged weights.
custom_hooks = [dict(type='EMAHook', momentum=1 - 0.9999, update_buffers=True, interval=1)]

train_cfg = dict(by_epoch=True, max_epochs=300, val_interval=1)
val_cfg = dict()
test_cfg = dict()

auto_scale_lr = dict(base_batch_size=4096)
