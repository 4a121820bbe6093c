"""Mask2Former for panoptic segmentation with FLatten-Swin-T on COCO, 50 epochs.

No paper reports it. Not run by this project. Trained like Swin-T.
"""

_base_ = ['../_base_/recipes/mask2former_lsj-50e_coco-panoptic.py']

# A checkpoint of flatten-swin-t_8xb128_in1k.py, or the official one after
# tools/convert_checkpoint.py.
pretrained = 'checkpoints/flatten-swin-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='LLSS',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    panoptic_head=dict(in_channels=[96, 192, 384, 768]),
)
