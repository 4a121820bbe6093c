"""UperNet with Swin-T on ADE20K, 160 000 iterations.

FLatten Transformer, Table 1: 44.51 mIoU, 55.61 mAcc, 60 M parameters, 945 G FLOPs at 2048 x 512. Not run by this
project. Recipe as with FLatten-Swin-T.
"""
_base_ = ['./upernet_flatten-swin-t_8xb2-160k_ade20k-512x512.py']

pretrained = 'checkpoints/swin-t_in1k.pth'  # yours to give, as there
model = dict(backbone=dict(attn_types='SSSS', init_cfg=dict(checkpoint=pretrained)))
