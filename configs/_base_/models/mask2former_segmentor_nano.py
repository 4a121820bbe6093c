"""Mask2Former of reduced width for scenes of 160 x 160 pixels and 11 classes, from random weights.

The config that inherits it gives the backbone and `decode_head.in_channels`.
"""

_base_ = ['./mask2former_segmentor.py']
channels = 64
model = dict(
    data_preprocessor=dict(size=(160, 160)),
    decode_head=dict(
        feat_channels=channels,
        out_channels=channels,
        num_classes=11,
        num_queries=20,
        pixel_decoder=dict(
            norm_cfg=dict(type='GN', num_groups=8),
            encoder=dict(
                num_layers=2,
                layer_cfg=dict(
                    self_attn_cfg=dict(embed_dims=channels, num_heads=4),
                    ffn_cfg=dict(embed_dims=channels, feedforward_channels=128),
                ),
            ),
            positional_encoding=dict(num_feats=channels // 2),
        ),
        positional_encoding=dict(num_feats=channels // 2),
        transformer_decoder=dict(
            num_layers=3,
            layer_cfg=dict(
                self_attn_cfg=dict(embed_dims=channels, num_heads=4),
                cross_attn_cfg=dict(embed_dims=channels, num_heads=4),
                ffn_cfg=dict(embed_dims=channels, feedforward_channels=128),
            ),
        ),
        loss_cls=dict(class_weight=[1.0] * 11 + [0.1]),
        train_cfg=dict(num_points=1024),
    ),
)
