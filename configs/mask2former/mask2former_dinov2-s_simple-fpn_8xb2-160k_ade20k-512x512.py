"""Mask2Former for semantic segmentation with a fine-tuned DINOv2 ViT-S/14 and a simple feature
pyramid on ADE20K, 160 000 iterations.

No paper reports it. Not run by this project. Trained like Swin-T, with the drop path of the plain
ViTs here. Crops are padded to whole patches, test images resized to them.
"""

_base_ = ['../_base_/recipes/mask2former_160k_ade20k-512x512.py']

# Meta's dinov2_vits14_pretrain.pth (Apache 2.0), after `mmflatten convert --family auto`.
pretrained = 'checkpoints/dinov2-s.pth'
strides = [3.5, 7, 14, 28]  # of the pyramid over patches of 14
model = dict(
    data_preprocessor=dict(size=(532, 532)),
    backbone=dict(
        type='mmflatten.ViT',
        arch='dinov2-small',
        out_type='featmap',
        output_norm='shared',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(type='mmflatten.SimpleFeaturePyramid', in_channels=384, out_channels=256),
    decode_head=dict(in_channels=[256, 256, 256, 256], strides=strides),
)

test_pipeline = [
    *_base_.test_pipeline[:2],
    dict(type='ResizeToMultiple', size_divisor=28),
    *_base_.test_pipeline[2:],
]
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
