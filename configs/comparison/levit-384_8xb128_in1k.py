"""LeViT-384 on ImageNet-1k.

Focal Transformer, Table 9: 82.6 % top-1, 39.1 M parameters, 2.3 G FLOPs. Not run by this project.
Model: mmpretrain's. Recipe: Swin's, where the authors' own differs. The accuracy is of a training
with a teacher, which this is not; its second classifier is there.
"""

_base_ = ['../_base_/recipes/grid_300e_in1k.py']

model = dict(
    backbone=dict(type='LeViT', arch='384', drop_path_rate=0.1, out_indices=(2,)),
    head=dict(type='LeViTClsHead', in_channels=768),
)
