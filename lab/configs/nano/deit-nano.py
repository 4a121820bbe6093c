"""DeiT nano for studies on Fashion-MNIST: 49 patches with learned positions, no class token, 0.2 M
parameters.

Run by this project in studies alone: lab/docs/second_study.md.
"""

_base_ = [
    '../../../configs/_base_/models/classifier_cls_token.py',
    './fashion.py',
    './five_epochs.py',
    '../../../configs/_base_/default_runtime.py',
]
model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch=dict(embed_dims=64, depth=4, num_heads=2),
        attn_types='L',
        linear_attention=dict(type='SoftmaxAttention'),
        with_cls_token=False,
        out_type='avg_featmap',
        img_size=28,
        patch_size=4,
        drop_path_rate=0.0,
    ),
    head=dict(in_channels=64, num_classes=10),
    train_cfg=None,
)  # neither Mixup nor CutMix
