"""EncoderMaskHead of reduced width for instances in scenes of 160 x 160 pixels, from random
weights.

The config that inherits it gives the backbone, `panoptic_head.in_channels` and
`panoptic_head.anneal_steps`.
"""

_base_ = ['./encoder-mask.py']
model = dict(
    panoptic_head=dict(
        num_things_classes=10,
        num_queries=20,
        embed_dims=96,
        num_heads=4,
        mlp_ratio=2.0,
        grid_size=(10, 10),
    ),
    panoptic_fusion_head=dict(num_things_classes=10),
    train_cfg=dict(num_points=1024),
    test_cfg=dict(max_per_image=20),
)
