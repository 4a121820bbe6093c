"""RetinaNet with a frozen DINOv3 ViT-B/16 and a simple feature pyramid on COCO, 12 epochs.

No paper reports it. Not run by this project. For the weights see
`mask-rcnn_dinov3-b-frozen_simple-fpn_1x_coco.py`.
"""

_base_ = ['../_base_/recipes/retinanet_1x_coco.py']

pretrained = 'checkpoints/dinov3-b.pth'
model = dict(
    backbone=dict(
        type='mmflatten.ViT',
        arch='dinov3-base',
        out_indices=(11,),
        out_type='featmap',
        output_norm='shared',
        frozen_stages=12,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(
        _delete_=True,
        type='mmflatten.SimpleFeaturePyramid',
        in_channels=768,
        out_channels=256,
        scales=[2.0, 1.0, 0.5],
        num_outs=5,
    ),
)
