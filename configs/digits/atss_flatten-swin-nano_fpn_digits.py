"""ATSS with a tiny FLatten-Swin on the digit scenes, from random weights on a CPU.

Run by this project: 0.633 box mAP on the 200 held-out scenes after 585 s on one thread of a busy
2-core machine.
"""

_base_ = [
    '../_base_/models/atss_fpn.py',
    '../_base_/datasets/digits_coco_det.py',
    '../_base_/schedules/digits_15e.py',
    '../_base_/default_runtime.py',
]
channels = 64
norm_cfg = dict(type='GN', num_groups=8)  # nothing is pre-trained, so every part is normalised
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=32, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16)),
        attn_types='LLSS',
        img_size=160,
        softmax_window=5,
        drop_path_rate=0.0,
    ),
    neck=dict(in_channels=[64, 128, 256], out_channels=channels, num_outs=3, norm_cfg=norm_cfg),
    # A digit is about 1.5 times as high as wide, and 25 to 60 pixels in size.
    bbox_head=dict(
        num_classes=10,
        in_channels=channels,
        feat_channels=channels,
        stacked_convs=2,
        norm_cfg=norm_cfg,
        anchor_generator=dict(octave_base_scale=4, ratios=[1.4], strides=[8, 16, 32]),
    ),
    test_cfg=dict(nms_pre=200, max_per_img=20),
)
