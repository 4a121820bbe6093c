"""ImageNet classifier (mmpretrain): average pooling and one linear layer, trained with Mixup,
CutMix and smoothing.

timm's `Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, prob=1, switch_prob=0.5, mode='batch',
label_smoothing=0.1)`: one of the two for each batch. The config that inherits it gives the
backbone, whose last stage alone is needed, and `head.in_channels`.
"""

default_scope = 'mmpretrain'
visualizer = dict(
    type='UniversalVisualizer', name='visualizer', vis_backends=[dict(type='LocalVisBackend')]
)
model = dict(
    type='ImageClassifier',
    backbone=dict(out_indices=(3,)),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='LinearClsHead',
        num_classes=1000,
        in_channels=None,
        init_cfg=dict(type='TruncNormal', layer='Linear', std=0.02, bias=0.0),
        loss=dict(type='LabelSmoothLoss', label_smooth_val=0.1, mode='original'),
    ),
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.8), dict(type='CutMix', alpha=1.0)]),
)
