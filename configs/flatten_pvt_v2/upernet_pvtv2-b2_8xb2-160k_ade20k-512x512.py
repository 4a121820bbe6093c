"""UperNet with PVTv2-B2 on ADE20K, 160 000 iterations.

The baseline for a comparison in "the exact same settings" (FLatten Transformer, sec. 5.1). Not run
by this project.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of pvtv2-b2_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/pvtv2-b2_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVTv2',
        arch='b2',
        attn_types='SSSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[64, 128, 320, 512]),
    auxiliary_head=dict(in_channels=320),
)
