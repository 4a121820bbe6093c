"""EncoderMaskHead in the last three blocks of a DINOv2 ViT-S/14 for panoptic segmentation on
COCO, 12 epochs.

EoMT reports 46.7 PQ for the panoptic model of this size, DINOv2 with patches of 16 and a 2x
schedule, and nothing for this one. Not run by this project. Settings: those of EoMT (Kerssies et
al., CVPR 2025), see the recipe. Images are padded to whole patches.
"""

_base_ = ['../_base_/recipes/encoder-mask_12e_coco-panoptic.py']

# Meta's dinov2_vits14_pretrain.pth (Apache 2.0), after `mmflatten convert --family auto`.
pretrained = 'checkpoints/dinov2-s.pth'
model = dict(
    data_preprocessor=dict(pad_size_divisor=28),
    backbone=dict(
        type='mmflatten.ViT',
        arch='dinov2-small',
        out_type='featmap',
        output_norm='shared',
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    panoptic_head=dict(in_channels=[384], joint=True),
)
