"""DINO of reduced width for scenes of 160 x 160 pixels, from random weights.

The config that inherits it gives the backbone with its maps of strides 8, 16 and 32, and
`neck.in_channels`.
"""

_base_ = ['./dino-4scale.py']
channels = 64
model = dict(
    num_queries=30,
    neck=dict(out_channels=channels, norm_cfg=dict(type='GN', num_groups=8)),
    encoder=dict(
        num_layers=2,
        layer_cfg=dict(
            self_attn_cfg=dict(embed_dims=channels, num_heads=4),
            ffn_cfg=dict(embed_dims=channels, feedforward_channels=128),
        ),
    ),
    decoder=dict(
        num_layers=3,
        layer_cfg=dict(
            self_attn_cfg=dict(embed_dims=channels, num_heads=4),
            cross_attn_cfg=dict(embed_dims=channels, num_heads=4),
            ffn_cfg=dict(embed_dims=channels, feedforward_channels=128),
        ),
    ),
    positional_encoding=dict(num_feats=channels // 2),
    bbox_head=dict(num_classes=10, embed_dims=channels),
    dn_cfg=dict(group_cfg=dict(num_dn_queries=30)),
    test_cfg=dict(max_per_img=30),
)
