"""FLatten-DeiT on Fashion-MNIST at 28 x 28: 49 patches and the class token, 1.0 M parameters.

Run by this project with a smaller `arch` and in shorter trainings alone: lab/docs/second_study.md.
"""
_base_ = [
    '../../../configs/_base_/models/classifier_cls_token.py', '../_base_/datasets/fashion_28.py',
    '../_base_/schedules/fashion_10e.py', '../../../configs/_base_/default_runtime.py'
]
model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch=dict(embed_dims=128, depth=5, num_heads=4),
        attn_types='L',
        linear_attention=dict(type='FocusedLinearAttention'),
        img_size=28,
        patch_size=4,
        drop_path_rate=0.0),
    head=dict(in_channels=128, num_classes=10),
    train_cfg=None)  # neither Mixup nor CutMix
