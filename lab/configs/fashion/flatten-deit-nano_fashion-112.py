"""FLatten-DeiT on Fashion-MNIST at 112 x 112: 784 patches and the class token, 1.6 M parameters.

Not run by this project beyond a few iterations.
"""
_base_ = [
    '../../../configs/_base_/models/classifier_cls_token.py', '../_base_/datasets/fashion_112.py',
    '../_base_/schedules/fashion_10e.py', '../../../configs/_base_/default_runtime.py'
]
model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch=dict(embed_dims=128, depth=5, num_heads=4),
        attn_types='L',
        linear_attention=dict(type='FocusedLinearAttention'),
        img_size=112,
        patch_size=4,
        drop_path_rate=0.0),
    head=dict(in_channels=128, num_classes=10),
    train_cfg=None)  # neither Mixup nor CutMix
