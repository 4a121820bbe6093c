"""ImageNet, 300 epochs of AdamW for a total batch of 1024: DeiT's recipe, for DeiT in all papers and FLatten-DeiT.

FLatten's authors trained FLatten-DeiT in another code base than the one they published, with "the exact same settings
as the corresponding baseline model": DeiT's 5 epochs of warm-up (the paper's general text says 20), no clipping of
gradients. DeiT steps its rates once an epoch, here they step at every iteration. Its images are repeated three times,
which is a sampler of the config. DeiT also averages its weights, but reports the others: left out.
"""
_base_ = ['./imagenet_adamw_300e.py']

# Besides biases and norms, the class token and the positions of the tokens get no weight decay. What linear attention
# adds (`scale`, `positional_encoding`, the convolution's kernel) does.
paramwise_cfg = dict(
    custom_keys={
        'embed.cls_token': dict(decay_mult=0.0),
        'embed.position': dict(decay_mult=0.0),
    })
optim_wrapper = dict(paramwise_cfg=paramwise_cfg, clip_grad=None)

param_scheduler = [
    dict(type='LinearLR', start_factor=1e-6 / 1e-3, by_epoch=True, begin=0, end=5, convert_to_iter_based=True),
    dict(
        type='CosineAnnealingLR',
        eta_min_ratio=1e-5 / 1e-3,
        by_epoch=True,
        begin=0,
        end=300,
        convert_to_iter_based=True),
]
