"""L2ViT-T on ImageNet-1k.

L2ViT, Table 2 (and the last lines of Tables 6 and 12, the first of Table 7, 1e2 in Table 10): 83.1
% top-1, 29 M parameters, 4.7 G FLOPs, 45.5 box AP and 41.2 mask AP in Mask R-CNN. Not run by this
project. Recipe: the paper's Table 9.
"""

_base_ = ['../_base_/recipes/l2vit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.L2ViT', arch='tiny', img_size=224, window_size=7, drop_path_rate=0.1
    ),
    head=dict(in_channels=768),
)
