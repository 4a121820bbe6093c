"""UperNet with FLatten-PVTv2-B1 on ADE20K, 160 000 iterations.

No paper reports it. Not run by this project. Recipe: the one that the same lab's Agent-Attention
takes from Swin's UperNet, with the drop path of its Semantic FPN with PVT-T.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of flatten-pvtv2-b1_8xb128_in1k.py; none is released.
pretrained = 'checkpoints/flatten-pvtv2-b1_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenPVTv2',
        arch='b1',
        attn_types='LLLL',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[64, 128, 320, 512]),
    auxiliary_head=dict(in_channels=320),
)
