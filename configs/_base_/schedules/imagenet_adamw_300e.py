"""ImageNet, 300 epochs of AdamW for a total batch of 1024 (8 GPUs x 128 images): Swin, FLatten-Swin
and Focal.

Swin's recipe, as in FLatten's `cfgs/flatten_swin_*.yaml` and in both authors' `config.py`: all
three learning rates are given for a batch of 512 and scaled with it; here the first and the last
one are parts of the highest, so a config of another batch gives `lr` alone.
"""

# One-dimensional tensors and biases get no weight decay, nor do position tables: Swin's, and
# Focal's two for keys outside of the window. Convolution kernels, Focal's pooling, `scale` and
# `positional_encoding` of the linear attention do get it.
paramwise_cfg = dict(
    norm_decay_mult=0.0,
    bias_decay_mult=0.0,
    flat_decay_mult=0.0,
    custom_keys={
        'relative_position_bias': dict(decay_mult=0.0),
        'neighbor_bias': dict(decay_mult=0.0),
        'pooled_bias': dict(decay_mult=0.0),
    },
)

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(
        type='AdamW', lr=5e-4 * 1024 / 512, weight_decay=0.05, eps=1e-8, betas=(0.9, 0.999)
    ),
    paramwise_cfg=paramwise_cfg,
    clip_grad=dict(max_norm=5.0),
)

# Both step per iteration. The official cosine runs from epoch 0 under the warm-up, so it is not
# put behind it: that would raise the learning rate by up to 6 % of its peak. Run together the two
# differ from the official schedule by 1.1 % of the peak at the end of the warm-up, where the
# official rate drops onto the cosine, and by 0.01 % after it.
param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=5e-7 / 5e-4,
        by_epoch=True,
        begin=0,
        end=20,
        convert_to_iter_based=True,
    ),
    dict(
        type='CosineAnnealingLR',
        eta_min_ratio=5e-6 / 5e-4,
        by_epoch=True,
        begin=0,
        end=300,
        convert_to_iter_based=True,
    ),
]

train_cfg = dict(by_epoch=True, max_epochs=300, val_interval=1)
val_cfg = dict()
test_cfg = dict()

auto_scale_lr = dict(base_batch_size=1024)
