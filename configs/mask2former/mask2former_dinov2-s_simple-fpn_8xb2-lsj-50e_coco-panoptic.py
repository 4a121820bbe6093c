"""Mask2Former for panoptic segmentation with a fine-tuned DINOv2 ViT-S/14 and a simple feature
pyramid on COCO, 50 epochs.

No paper reports it. Not run by this project. Trained like Swin-T, with the drop path of the plain
ViTs here.
"""

_base_ = ['../_base_/recipes/mask2former_lsj-50e_coco-panoptic.py']

# Meta's dinov2_vits14_pretrain.pth (Apache 2.0), after `mmflatten convert --family auto`.
pretrained = 'checkpoints/dinov2-s.pth'
strides = [3.5, 7, 14, 28]  # of the pyramid over patches of 14
model = dict(
    data_preprocessor=dict(
        pad_size_divisor=28,
        batch_augments=[
            dict(
                type='BatchFixedSizePad',
                size=(1036, 1036),
                img_pad_value=0,
                pad_mask=True,
                pad_seg=True,
                seg_pad_value=255,
            )
        ],
    ),
    backbone=dict(
        type='mmflatten.ViT',
        arch='dinov2-small',
        out_type='featmap',
        output_norm='shared',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(type='mmflatten.SimpleFeaturePyramid', in_channels=384, out_channels=256),
    panoptic_head=dict(in_channels=[256, 256, 256, 256], strides=strides),
)
