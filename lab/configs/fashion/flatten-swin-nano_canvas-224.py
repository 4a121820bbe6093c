"""Tiny FLatten-Swin that names the marked one of 8 x 8 garments: 3,136 tokens in the first stage.

Not run by this project beyond a few iterations.
"""
_base_ = [
    '../../../configs/_base_/models/classifier.py',
    '../_base_/datasets/fashion_canvas.py',
    '../_base_/schedules/fashion_10e.py',
    '../../../configs/_base_/default_runtime.py',
]
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=32, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16)),
        attn_types='LLSS',
        linear_attention=dict(type='FocusedLinearAttention'),
        img_size=224,
        softmax_window=7,
        drop_path_rate=0.0),
    head=dict(in_channels=256, num_classes=10),
    train_cfg=None)  # neither Mixup nor CutMix

auto_scale_lr = dict(base_batch_size=16)
