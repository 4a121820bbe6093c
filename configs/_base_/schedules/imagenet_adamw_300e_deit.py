"""ImageNet, 300 epochs of AdamW for a total batch of 1024: DeiT's recipe, for DeiT and FLatten-DeiT
in all papers.

PVT's and PVTv2's code took it over: the same rates, of which the first and the last do not depend
on the batch. FLatten's authors trained FLatten-DeiT in another code base than the one they
published, with "the exact same settings as the corresponding baseline model": DeiT's 5 epochs of
warm-up (the paper's general text says 20), no clipping of gradients. DeiT steps its rates once an
epoch, here they step at every iteration. DeiT also averages its weights, but reports the others:
left out.
"""

# Besides biases and norms, DeiT's class token and positions get no weight decay, nor does PVT's
# class token. PVT's positions do, as in its code, and so do `scale`, `positional_encoding` and the
# kernel of the convolution in linear attention.
paramwise_cfg = dict(
    norm_decay_mult=0.0,
    bias_decay_mult=0.0,
    flat_decay_mult=0.0,
    custom_keys={
        'embed.cls_token': dict(decay_mult=0.0),
        'embed.position': dict(decay_mult=0.0),
    },
)
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(
        type='AdamW', lr=5e-4 * 1024 / 512, weight_decay=0.05, eps=1e-8, betas=(0.9, 0.999)
    ),
    paramwise_cfg=paramwise_cfg,
)

param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=1e-6 / 1e-3,
        by_epoch=True,
        begin=0,
        end=5,
        convert_to_iter_based=True,
    ),
    dict(
        type='CosineAnnealingLR',
        eta_min_ratio=1e-5 / 1e-3,
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
