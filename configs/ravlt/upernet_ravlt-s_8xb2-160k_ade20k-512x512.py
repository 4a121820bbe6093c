"""UperNet with RAVLT-S on ADE20K, 160 000 iterations.

RALA, README: 50.7 mIoU. Not run by this project. Inferred: it trains like Swin, with the drop path
of the classifier.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of ravlt-s_8xb128_in1k.py.
pretrained = 'checkpoints/ravlt-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='small',
        drop_path_rate=0.15,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[64, 128, 320, 512]),
    auxiliary_head=dict(in_channels=320),
)
