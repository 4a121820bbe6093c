"""UperNet with L2ViT-S on ADE20K, 160 000 iterations.

L2ViT, Table 5: 48.7 mIoU, 82 M parameters, 1034 G FLOPs at 2048 x 512. Not run by this project.
Trained like L2ViT-T.
"""

_base_ = ['./upernet_l2vit-t_8xb2-160k_ade20k-512x512.py']

# A checkpoint of l2vit-s_32xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/l2vit-s_in1k.pth'
model = dict(backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)))
