"""Tiny FLatten-Swin on Fashion-MNIST at 28 x 28: 49 tokens in the first stage, 1.4 M parameters.

Run by this project in shorter trainings alone: lab/docs/second_study.md.
"""
_base_ = [
    '../../../configs/_base_/models/classifier.py',
    '../_base_/datasets/fashion_28.py',
    '../_base_/schedules/fashion_10e.py',
    '../../../configs/_base_/default_runtime.py',
]
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=32, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16)),
        attn_types='LLSS',
        linear_attention=dict(type='FocusedLinearAttention'),
        img_size=28,
        softmax_window=7,
        drop_path_rate=0.0),
    head=dict(in_channels=256, num_classes=10),
    train_cfg=None)  # neither Mixup nor CutMix
