"""Linear probe of a frozen DINOv2 ViT-S/14 on ImageNet-1k: class token and mean of the map, one
linear layer.

DINOv2's model zoo: 81.1 % top-1 with a linear layer (79.0 % with k-NN), the best of several rates,
depths and poolings. Not run by this project.
"""

_base_ = ['../_base_/recipes/linear-probe_10e_in1k.py']

# Meta's dinov2_vits14_pretrain.pth (Apache 2.0), after `mmflatten convert --family auto`.
pretrained = 'checkpoints/dinov2-s.pth'
model = dict(
    backbone=dict(
        type='mmflatten.ViT',
        arch='dinov2-small',
        out_type='cls_and_avg',
        frozen_stages=12,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    head=dict(in_channels=768),
)
