"""UperNet with FLatten-Swin-S on ADE20K, 160 000 iterations.

FLatten Transformer, Table 1: 48.14 mIoU, 59.31 mAcc, 82 M parameters, 1038 G FLOPs at 2048 x 512. Not run by this
project. Recipe as for FLatten-Swin-T.
"""
_base_ = ['./upernet_flatten-swin-t_8xb2-160k_ade20k-512x512.py']

pretrained = 'checkpoints/flatten-swin-s_in1k.pth'
model = dict(backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)))
