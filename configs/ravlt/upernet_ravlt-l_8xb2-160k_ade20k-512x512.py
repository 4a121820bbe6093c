"""UperNet with RAVLT-L on ADE20K, 160 000 iterations.

RALA, README: 53.2 mIoU. Not run by this project. Inferred: it trains like Swin, with the drop path
of the classifier.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of ravlt-l_8xb128_in1k.py.
pretrained = 'checkpoints/ravlt-l_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='large',
        layer_scale=1e-6,
        drop_path_rate=0.55,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[96, 192, 448, 640]),
    auxiliary_head=dict(in_channels=448),
)
