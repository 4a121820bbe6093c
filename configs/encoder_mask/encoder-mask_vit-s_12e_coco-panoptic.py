"""EncoderMaskHead in the last three blocks of a DeiT III ViT-S/16 for panoptic segmentation on
COCO, 12 epochs.

No paper reports it. Not run by this project. Settings: those of EoMT (Kerssies et al., CVPR 2025),
see the recipe.
"""

_base_ = ['../_base_/recipes/encoder-mask_12e_coco-panoptic.py']

# Meta's deit_3_small_224_21k.pth (Apache 2.0), after `mmflatten convert --family auto`.
pretrained = 'checkpoints/deit3-s.pth'
model = dict(
    backbone=dict(
        type='mmflatten.ViT',
        arch='deit3-small',
        out_type='featmap',
        output_norm='shared',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    panoptic_head=dict(in_channels=[384], joint=True),
)
