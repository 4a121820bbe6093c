"""EncoderMaskHead behind Swin-T for panoptic segmentation on COCO, 12 epochs.

No paper reports it. The blocks of queries are those of the head, on the map of a light pixel
decoder. Not run by this project. Settings: those of EoMT (Kerssies et al., CVPR 2025), see the
recipe.
"""

_base_ = ['../_base_/recipes/encoder-mask_12e_coco-panoptic.py']

# A checkpoint of swin-t_8xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='SSSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    panoptic_head=dict(in_channels=[96, 192, 384, 768]),
)
