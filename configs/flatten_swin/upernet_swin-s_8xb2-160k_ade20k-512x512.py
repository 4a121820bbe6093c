"""UperNet with Swin-S on ADE20K, 160 000 iterations.

FLatten Transformer, Table 1: 47.64 mIoU, 58.78 mAcc, 81 M parameters, 1038 G FLOPs at 2048 x 512. Not run by this
project. Recipe as with FLatten-Swin-S.
"""
_base_ = ['./upernet_flatten-swin-s_8xb2-160k_ade20k-512x512.py']

pretrained = 'checkpoints/swin-s_in1k.pth'  # yours to give, as there
model = dict(backbone=dict(attn_types='SSSS', init_cfg=dict(checkpoint=pretrained)))
