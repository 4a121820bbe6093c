"""L2ViT-B on ImageNet-1k at 384 x 384, fine-tuned for 30 epochs from ImageNet-22k at 224 x 224.

L2ViT, Table 3: 87.0 % top-1, 89 M parameters, 47.5 G FLOPs. Not run by this project. Trained, and
started from the same weights, as at 224 x 224; windows of 12 x 12. No weight depends on the size of
image or window.
"""

_base_ = ['../_base_/recipes/l2vit_30e_in1k-384px.py']
load_from = 'checkpoints/l2vit-b_in22k.pth'

model = dict(
    backbone=dict(
        type='mmflatten.L2ViT', arch='base', img_size=384, window_size=12, drop_path_rate=0.2
    ),
    head=dict(in_channels=1024),
)
