"""L2ViT-B on ImageNet-22k, the pre-training of its two fine-tuned models.

L2ViT, Table 3 (which gives no accuracy on ImageNet-22k). Not run by this project. Recipe: the
command of the authors' README, 90 epochs of a total batch of 1024 at a rate of 1e-3, without a
moving average of the weights. The paper's Table 9 prints a batch of 4096 at that rate; 1024 fits
the 4e-3 for 4096 images of ImageNet-1k.
"""

_base_ = ['../_base_/recipes/l2vit_90e_in22k.py']
model = dict(
    backbone=dict(
        type='mmflatten.L2ViT', arch='base', img_size=224, window_size=7, drop_path_rate=0.2
    ),
    head=dict(in_channels=1024),
)
