"""ATSS of reduced width on the digit scenes, 15 epochs.

A config adds the backbone, of which the maps of strides 8, 16 and 32 are taken, and
`neck.in_channels`.
"""

_base_ = [
    '../models/atss_fpn.py',
    '../datasets/digits_coco_det.py',
    '../schedules/digits_15e.py',
    '../default_runtime.py',
]
channels = 64
norm_cfg = dict(type='GN', num_groups=8)  # nothing is pre-trained, so every part is normalised
model = dict(
    neck=dict(out_channels=channels, num_outs=3, norm_cfg=norm_cfg),
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
