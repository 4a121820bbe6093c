"""Swin-B on ImageNet-1k, fine-tuned for 30 epochs from ImageNet-22k.

L2ViT, Table 3 (from Swin's paper): 85.2 % top-1, 88 M parameters, 15.4 G FLOPs. Not run by this
project. Recipe: Swin's, with a batch of 1024 (there 8 GPUs x 64 images, accumulated twice). Swin's
code starts the head from the rows of the 22k head that the 1000 classes have; here it starts anew.
"""

_base_ = ['../_base_/recipes/swin_30e_in1k-224px.py']
# Swin-B's official weights from ImageNet-22k at this size, after tools/convert_checkpoint.py.
load_from = 'checkpoints/swin_base_patch4_window7_224_22k.pth'

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='base',
        attn_types='SSSS',
        img_size=224,
        softmax_window=7,
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=1024),
)
