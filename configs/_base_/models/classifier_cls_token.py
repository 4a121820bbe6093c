"""ImageNet classifier (mmpretrain) on a class token: one linear layer, trained as in classifier.py.

The config that inherits it gives the backbone, which returns the class token of its last block, and
`head.in_channels`.
"""

default_scope = 'mmpretrain'
visualizer = dict(
    type='UniversalVisualizer', name='visualizer', vis_backends=[dict(type='LocalVisBackend')]
)
model = dict(
    type='ImageClassifier',
    backbone=dict(),
    neck=None,
    head=dict(
        type='LinearClsHead',
        num_classes=1000,
        in_channels=None,
        init_cfg=dict(type='TruncNormal', layer='Linear', std=0.02, bias=0.0),
        loss=dict(type='LabelSmoothLoss', label_smooth_val=0.1, mode='original'),
    ),
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.8), dict(type='CutMix', alpha=1.0)]),
)
