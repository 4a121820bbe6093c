"""DNL with ResNet-101 on ADE20K, 160 000 iterations.

Focal Transformer, Table 12: 46.0 mIoU, 69 M parameters, 1249 G FLOPs. Not run by this project. Initial weights are
random: name a checkpoint in model.backbone.init_cfg. Model and recipe: mmseg's.
"""
_base_ = ['./danet_r101_8xb2-160k_ade20k-512x512.py']

model = dict(
    decode_head=dict(
        _delete_=True,
        type='DNLHead',
        reduction=2,
        mode='embedded_gaussian',
        in_channels=2048,
        in_index=3,
        channels=512,
        dropout_ratio=0.1,
        num_classes=150,
        norm_cfg=dict(type='SyncBN', requires_grad=True)))
