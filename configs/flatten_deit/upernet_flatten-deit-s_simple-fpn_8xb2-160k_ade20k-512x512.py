"""UperNet with FLatten-DeiT-S and a simple feature pyramid on ADE20K, 160 000 iterations.

No paper reports it. Not run by this project. Trained like FLatten-DeiT-T.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of flatten-deit-s_8xb128_in1k.py; none is released.
pretrained = 'checkpoints/flatten-deit-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='small',
        attn_types='L',
        out_type='featmap',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(type='mmflatten.SimpleFeaturePyramid', in_channels=384, out_channels=256),
    decode_head=dict(in_channels=[256, 256, 256, 256]),
    auxiliary_head=dict(in_channels=256),
)

# DeiT's class token and positions get no weight decay, as in classification.
optim_wrapper = dict(
    paramwise_cfg=dict(
        custom_keys={
            'embed.cls_token': dict(decay_mult=0.0),
            'embed.position': dict(decay_mult=0.0),
        }
    )
)
