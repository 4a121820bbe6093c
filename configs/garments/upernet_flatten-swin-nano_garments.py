"""UperNet with a tiny FLatten-Swin on the garment scenes. Not run by this project beyond a few iterations."""
_base_ = [
    '../_base_/models/upernet.py', '../_base_/datasets/garments_seg.py', '../_base_/schedules/digits_2k.py',
    '../_base_/default_runtime.py'
]
norm_cfg = dict(type='BN', requires_grad=True)
model = dict(
    data_preprocessor=dict(size=(160, 160)),
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=32, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16)),
        attn_types='LLSS',
        img_size=160,
        softmax_window=5,
        drop_path_rate=0.0),
    decode_head=dict(in_channels=[32, 64, 128, 256], channels=64, num_classes=11, norm_cfg=norm_cfg),
    auxiliary_head=dict(in_channels=128, channels=32, num_classes=11, norm_cfg=norm_cfg))
