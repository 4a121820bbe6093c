"""Mask2Former for panoptic segmentation with RAVLT-T on COCO, 50 epochs.

No paper reports it. Not run by this project. Trained like Swin-T, with the drop path of its
classifier.
"""

_base_ = ['../_base_/recipes/mask2former_lsj-50e_coco-panoptic.py']

# A checkpoint of ravlt-t_8xb128_in1k.py.
pretrained = 'checkpoints/ravlt-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.RAVLT',
        arch='tiny',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    panoptic_head=dict(in_channels=[64, 128, 256, 512]),
)
