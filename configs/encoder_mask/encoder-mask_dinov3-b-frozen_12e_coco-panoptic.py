"""EncoderMaskHead behind a frozen DINOv3 ViT-B/16 for panoptic segmentation on COCO, 12 epochs.

No paper reports it. The queries join the tokens in three blocks of the head, because those of a
frozen backbone cannot learn to use them. Not run by this project. Settings: those of EoMT (Kerssies
et al., CVPR 2025), see the recipe.
"""

_base_ = ['../_base_/recipes/encoder-mask_12e_coco-panoptic.py']

# Meta's weights are under the DINOv3 License: accept it at
# ai.meta.com/resources/models-and-libraries/dinov3-downloads or on Hugging Face
# (facebook/dinov3-vitb16-pretrain-lvd1689m), then `mmflatten convert --family auto`.
pretrained = 'checkpoints/dinov3-b.pth'
model = dict(
    backbone=dict(
        type='mmflatten.ViT',
        arch='dinov3-base',
        out_type='featmap',
        output_norm='shared',
        frozen_stages=12,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    panoptic_head=dict(in_channels=[768]),
)
