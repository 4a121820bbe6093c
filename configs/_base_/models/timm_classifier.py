"""ImageNet classifier that is a whole model of timm (mmpretrain's TimmClassifier).

It is trained with Mixup, CutMix and smoothing as in classifier.py.

The config that inherits it gives `model_name` and other arguments of `timm.create_model`.
"""

default_scope = 'mmpretrain'
visualizer = dict(
    type='UniversalVisualizer', name='visualizer', vis_backends=[dict(type='LocalVisBackend')]
)
model = dict(
    type='TimmClassifier',
    model_name=None,
    num_classes=1000,
    loss=dict(type='LabelSmoothLoss', label_smooth_val=0.1, mode='original'),
    train_cfg=dict(augments=[dict(type='Mixup', alpha=0.8), dict(type='CutMix', alpha=1.0)]),
)
