"""ImageNet, 300 epochs of AdamW for a total batch of 1024: DeiT's recipe, for the attentions that L2ViT puts into it.

L2ViT says only that its models are trained "following the recipe" of Swin, ConvNeXt and DeiT. This is DeiT's: its
learning rates are given for a batch of 512, its images are repeated three times (a sampler of the config), and its
gradients are not clipped. DeiT's moving average of the weights is left out: it reports the weights themselves.
"""
paramwise_cfg = dict(
    norm_decay_mult=0.0,
    bias_decay_mult=0.0,
    flat_decay_mult=0.0,
    custom_keys={
        'cls_token': dict(decay_mult=0.0),
        'embed.position': dict(decay_mult=0.0),
    })

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=5e-4 * 1024 / 512, weight_decay=0.05, eps=1e-8, betas=(0.9, 0.999)),
    paramwise_cfg=paramwise_cfg)

# timm's cosine runs from epoch 0 under the warm-up. DeiT steps once per epoch; here both step per iteration, as in the
# other schedules of ImageNet.
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-6 / 1e-3, by_epoch=True, begin=0, end=5, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', eta_min=1e-5, by_epoch=True, begin=0, end=300, convert_to_iter_based=True),
]

train_cfg = dict(by_epoch=True, max_epochs=300, val_interval=1)
val_cfg = dict()
test_cfg = dict()

auto_scale_lr = dict(base_batch_size=1024)
