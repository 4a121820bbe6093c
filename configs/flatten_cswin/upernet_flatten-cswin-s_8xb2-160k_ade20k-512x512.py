"""UperNet with FLatten-CSwin-S on ADE20K, 160 000 iterations.

No paper reports it. Not run by this project. Trained like FLatten-CSwin-T.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of flatten-cswin-s_8xb128_in1k.py.
pretrained = 'checkpoints/flatten-cswin-s_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch='small',
        attn_types='LLSS',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[64, 128, 256, 512]),
    auxiliary_head=dict(in_channels=256),
)
