"""InLine-DeiT-S on ImageNet-1k.

InLine, README: 80.2 % top-1. Not run by this project. It is narrower than DeiT-S and sees images of
288 x 288. Inferred: it trains like DeiT; the drop path is the authors'.
"""

_base_ = [
    '../_base_/models/classifier_cls_token.py',
    '../_base_/datasets/imagenet_bs128_288.py',
    '../_base_/schedules/imagenet_adamw_300e_deit.py',
    '../_base_/default_runtime.py',
]

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch=dict(embed_dims=320, depth=12, num_heads=10),
        attn_types='L',
        linear_attention=dict(type='InLineAttention'),
        img_size=288,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=320),
)

# Repeated augmentation, as in deit_300e_in1k.py.
train_dataloader = dict(sampler=dict(type='RepeatAugSampler', num_repeats=3))
