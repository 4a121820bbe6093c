"""RetinaNet of reduced width for scenes of 160 x 160 pixels, from random weights.

The config that inherits it gives the backbone and the three `neck.in_channels`.
"""

_base_ = ['./retinanet_fpn.py']
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
        anchor_generator=dict(
            octave_base_scale=3, scales_per_octave=2, ratios=[1.4], strides=[8, 16, 32]
        ),
    ),
    test_cfg=dict(nms_pre=200, max_per_img=20),
)
