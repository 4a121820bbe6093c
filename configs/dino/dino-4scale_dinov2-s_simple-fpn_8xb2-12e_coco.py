"""DINO-4scale with a fine-tuned DINOv2 ViT-S/14 and a simple feature pyramid on COCO, 12 epochs.

No paper reports it. Not run by this project. Trained like Swin-T, with the drop path of the plain
ViTs here.
"""

_base_ = ['../_base_/recipes/dino-4scale_12e_coco.py']

# Meta's dinov2_vits14_pretrain.pth (Apache 2.0), after `mmflatten convert --family auto`.
pretrained = 'checkpoints/dinov2-s.pth'
model = dict(
    data_preprocessor=dict(pad_size_divisor=28),
    backbone=dict(
        type='mmflatten.ViT',
        arch='dinov2-small',
        out_indices=(11,),
        out_type='featmap',
        output_norm='shared',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(
        _delete_=True,
        type='mmflatten.SimpleFeaturePyramid',
        in_channels=384,
        out_channels=256,
        scales=[2.0, 1.0, 0.5],
        num_outs=4,
    ),
)
