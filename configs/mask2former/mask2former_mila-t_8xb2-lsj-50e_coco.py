"""Mask2Former for instances with MILA-T on COCO, 50 epochs.

No paper reports it. Not run by this project. Trained like Swin-T, with the drop path of its
classifier.
"""

_base_ = ['../_base_/recipes/mask2former_lsj-50e_coco.py']

# A checkpoint of mila-t_8xb128_in1k.py.
pretrained = 'checkpoints/mila-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.MLLA',
        arch='tiny',
        drop_path_rate=0.2,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    panoptic_head=dict(in_channels=[64, 128, 256, 512]),
)
