"""EncoderMaskHead (mmseg) for semantic segmentation: queries among the tokens of the last blocks of
an encoder, without masked attention.

Losses, costs and sampled points as in encoder-mask.py. The config that inherits it gives the
backbone, `decode_head.in_channels` and `decode_head.anneal_steps`, the length of the training in
steps, for masked attention.
"""

default_scope = 'mmseg'
visualizer = dict(
    type='SegLocalVisualizer', name='visualizer', vis_backends=[dict(type='LocalVisBackend')]
)
model = dict(
    type='mmflatten.EncoderMaskSegmentor',
    data_preprocessor=dict(
        type='SegDataPreProcessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
        pad_val=0,
        seg_pad_val=255,
        size=(512, 512),
        test_cfg=dict(size_divisor=32),
    ),
    backbone=dict(),
    decode_head=dict(
        type='mmflatten.EncoderMaskSegHead',
        in_channels=None,
        num_classes=150,
        num_queries=100,
        num_blocks=3,
        grid_size=(32, 32),
        train_cfg=dict(num_points=12544, oversample_ratio=3.0, importance_sample_ratio=0.75),
    ),
    train_cfg=dict(),
    test_cfg=dict(mode='whole'),
)
