"""UperNet with L2ViT-B on ADE20K, 160 000 iterations.

L2ViT, Table 5: 49.2 mIoU, 122 M parameters, 1182 G FLOPs at 2048 x 512. Not run by this project.
Trained like L2ViT-T.
"""

_base_ = ['./upernet_l2vit-t_8xb2-160k_ade20k-512x512.py']

# A checkpoint of l2vit-b_32xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/l2vit-b_in1k.pth'
model = dict(
    backbone=dict(arch='base', init_cfg=dict(checkpoint=pretrained)),
    decode_head=dict(in_channels=[128, 256, 512, 1024]),
    auxiliary_head=dict(in_channels=512),
)
