"""UperNet with RAVLT-B on ADE20K, 160 000 iterations.

RALA, README: 52.5 mIoU. Not run by this project. Inferred: it trains like Swin, with the drop path
of the classifier.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of ravlt-b_8xb128_in1k.py.
pretrained = 'checkpoints/ravlt-b_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='base',
        layer_scale=(1.0, 1.0, 1e-6, 1e-6),
        drop_path_rate=0.4,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[96, 192, 384, 512]),
    auxiliary_head=dict(in_channels=384),
)
