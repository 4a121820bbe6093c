"""Mask R-CNN with FLatten-DeiT-S and a simple feature pyramid on COCO, 12 epochs.

No paper reports it. Not run by this project. Trained like FLatten-DeiT-T.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-1x_coco.py']

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
    neck=dict(
        _delete_=True,
        type='mmflatten.SimpleFeaturePyramid',
        in_channels=384,
        out_channels=256,
        num_outs=5,
    ),
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
