"""UperNet with XCiT-S12/16 on ADE20K, 160 000 iterations.

L2ViT, Table 5: 45.9 mIoU, 52 M parameters. Not run by this project. Initial weights are random: name a checkpoint in
model.backbone.init_cfg. Four maps of one stride are resized to strides 4 to 32, as BEiT does. Trained like Swin here.
"""
_base_ = ['./upernet_xcit-s24_8xb2-160k_ade20k-512x512.py']

model = dict(backbone=dict(depth=12, out_indices=(3, 5, 7, 11)))
