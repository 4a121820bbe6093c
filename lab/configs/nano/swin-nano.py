"""Swin nano for studies on Fashion-MNIST at 56 x 56, 1.3 M parameters.

Maps of 14, 7, 4 and 2 tokens a side, windows of at most 7 x 7. Run by this project as a teacher:
lab/docs/linearize.md.
"""

_base_ = [
    '../../../configs/_base_/models/classifier.py',
    './fashion.py',
    './five_epochs.py',
    '../../../configs/_base_/default_runtime.py',
]
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=32, depths=(2, 2, 1, 1), num_heads=(1, 2, 4, 8)),
        attn_types='SSSS',
        img_size=56,
        softmax_window=7,
        drop_path_rate=0.0,
    ),
    head=dict(in_channels=256, num_classes=10),
    train_cfg=None,
)  # neither Mixup nor CutMix

train_dataloader = dict(dataset=dict(size=56))
val_dataloader = dict(dataset=dict(size=56))
test_dataloader = dict(dataset=dict(size=56))
