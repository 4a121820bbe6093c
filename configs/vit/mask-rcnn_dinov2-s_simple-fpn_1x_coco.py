"""Mask R-CNN with a fine-tuned DINOv2 ViT-S/14 and a simple feature pyramid on COCO, 12 epochs.

No paper reports it. Not run by this project. The rates of the backbone decay by layer.
"""

_base_ = ['../_base_/recipes/mask-rcnn_ms-1x_coco.py']

# Meta's dinov2_vits14_pretrain.pth (Apache 2.0), after `mmflatten convert --family auto`.
pretrained = 'checkpoints/dinov2-s.pth'
strides = [3.5, 7, 14, 28, 56]  # of the pyramid over patches of 14
model = dict(
    data_preprocessor=dict(pad_size_divisor=28),
    backbone=dict(
        type='mmflatten.ViT',
        arch='dinov2-small',
        out_type='featmap',
        output_norm='shared',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(
        _delete_=True,
        type='mmflatten.SimpleFeaturePyramid',
        in_channels=384,
        out_channels=256,
        num_outs=5,
    ),
    rpn_head=dict(anchor_generator=dict(strides=strides)),
    roi_head=dict(
        bbox_roi_extractor=dict(featmap_strides=strides[:4]),
        mask_roi_extractor=dict(featmap_strides=strides[:4]),
    ),
)
optim_wrapper = dict(
    constructor='mmflatten.LayerDecayOptimWrapperConstructor',
    paramwise_cfg=dict(layer_decay_rate=0.7, bias_decay_mult=0.0),
)
