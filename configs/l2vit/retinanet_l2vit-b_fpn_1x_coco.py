"""RetinaNet with L2ViT-B on COCO, 12 epochs.

L2ViT, Table 4: 46.5 box AP, 99 M parameters, 484 G FLOPs at 800 x 1280. Not run by this project.
Trained like L2ViT-T.
"""

_base_ = ['./retinanet_l2vit-t_fpn_1x_coco.py']

# A checkpoint of l2vit-b_32xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/l2vit-b_in1k.pth'
model = dict(
    backbone=dict(arch='base', drop_path_rate=0.2, init_cfg=dict(checkpoint=pretrained)),
    neck=dict(in_channels=[256, 512, 1024]),
)
