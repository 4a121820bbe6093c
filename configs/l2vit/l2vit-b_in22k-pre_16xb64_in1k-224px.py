"""L2ViT-B on ImageNet-1k, fine-tuned for 30 epochs from ImageNet-22k.

L2ViT, Table 3: 86.0 % top-1, 89 M parameters, 15.9 G FLOPs. Not run by this project. Recipe: the
authors' README.
"""

_base_ = ['../_base_/recipes/l2vit_30e_in1k-224px.py']
# A checkpoint of l2vit-b_8xb128_in22k.py, or the official one after tools/convert_checkpoint.py.
# The authors keep the rows of its head that belong to the 1000 classes; with the official head
# mapped: see docs/checkpoints.md. A head of 21 841 classes does not fit, MMEngine says so
# (head.fc), and the one of 1000 classes starts anew.
load_from = 'checkpoints/l2vit-b_in22k.pth'

model = dict(
    backbone=dict(
        type='mmflatten.L2ViT', arch='base', img_size=224, window_size=7, drop_path_rate=0.2
    ),
    head=dict(in_channels=1024),
)
