"""UperNet with XCiT-S24/16 on ADE20K, 160 000 iterations.

L2ViT, Table 5: 46.9 mIoU, 74 M parameters. Not run by this project. Initial weights are random: name a checkpoint in
model.backbone.init_cfg. Four maps of one stride are resized to strides 4 to 32, as BEiT does. Trained like Swin here.
"""
_base_ = ['./upernet_xcit-m24_8xb2-160k_ade20k-512x512.py']

model = dict(
    backbone=dict(embed_dims=384),
    neck=dict(embed_dim=384),
    decode_head=dict(in_channels=[384, 384, 384, 384]),
    auxiliary_head=dict(in_channels=384))
