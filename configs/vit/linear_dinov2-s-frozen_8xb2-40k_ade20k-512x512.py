"""Linear head on the last map of a frozen DINOv2 ViT-S/14 on ADE20K, 40 000 iterations.

DINOv2's model card has 47.2 for its multi-scale head and none for this head. Not run by this
project. Crops are padded to whole patches, test images resized to them.
"""

_base_ = ['../_base_/recipes/segmentor_40k_ade20k-512x512.py']

# Meta's dinov2_vits14_pretrain.pth (Apache 2.0), after `mmflatten convert --family auto`.
pretrained = 'checkpoints/dinov2-s.pth'
model = dict(
    data_preprocessor=dict(size=(518, 518)),
    backbone=dict(
        type='mmflatten.ViT',
        arch='dinov2-small',
        out_type='featmap',
        output_norm='shared',
        frozen_stages=12,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(
        type='FCNHead',
        in_channels=384,
        channels=384,
        in_index=0,
        num_convs=0,
        concat_input=False,
        dropout_ratio=0.0,
        num_classes=150,
        align_corners=False,
        # The model takes the mean over all pixels, ignored ones included. This is mmseg's default,
        # of which it warns; for the mean over the others set reduction='mean' and
        # avg_non_ignore=True.
        loss_decode=dict(
            type='CrossEntropyLoss', use_sigmoid=False, reduction='none', loss_weight=1.0
        ),
    ),
)
optim_wrapper = dict(optimizer=dict(lr=1e-3))

test_pipeline = [
    *_base_.test_pipeline[:2],
    dict(type='ResizeToMultiple', size_divisor=14),
    *_base_.test_pipeline[2:],
]
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
