"""EncoderMaskHead (mmdet) for instances: queries among the tokens of the last blocks of an encoder,
without masked attention.

Losses, costs and sampled points are those of EoMT (Kerssies et al., CVPR 2025), which are also
Mask2Former's. The config that inherits it gives the backbone, `panoptic_head.in_channels` and
`panoptic_head.anneal_steps`, the length of the training in steps, for masked attention.
"""

default_scope = 'mmdet'
visualizer = dict(
    type='DetLocalVisualizer', name='visualizer', vis_backends=[dict(type='LocalVisBackend')]
)
model = dict(
    type='mmflatten.EncoderMaskDetector',
    data_preprocessor=dict(
        type='DetDataPreprocessor',
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        bgr_to_rgb=True,
        pad_size_divisor=32,
        pad_mask=True,
        mask_pad_value=0,
    ),
    backbone=dict(),
    panoptic_head=dict(
        type='mmflatten.EncoderMaskHead',
        in_channels=None,
        num_things_classes=80,
        num_stuff_classes=0,
        num_queries=200,
        num_blocks=3,
    ),
    panoptic_fusion_head=dict(
        type='MaskFormerFusionHead', num_things_classes=80, num_stuff_classes=0
    ),
    train_cfg=dict(num_points=12544, oversample_ratio=3.0, importance_sample_ratio=0.75),
    test_cfg=dict(panoptic_on=False, semantic_on=False, instance_on=True, max_per_image=100),
)
