"""EncoderMaskHead of reduced width for semantic segmentation of scenes of 160 x 160 pixels and 11
classes, from random weights.

The config that inherits it gives the backbone, `decode_head.in_channels` and
`decode_head.anneal_steps`.
"""

_base_ = ['./encoder-mask_segmentor.py']
model = dict(
    data_preprocessor=dict(size=(160, 160)),
    decode_head=dict(
        num_classes=11,
        num_queries=20,
        embed_dims=96,
        num_heads=4,
        mlp_ratio=2.0,
        grid_size=(10, 10),
        train_cfg=dict(num_points=1024),
    ),
)
