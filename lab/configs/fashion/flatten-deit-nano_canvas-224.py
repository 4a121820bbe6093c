"""FLatten-DeiT that names the marked one of 8 x 8 garments: 3,136 patches and the class token.

Not run by this project beyond a few iterations.
"""
_base_ = [
    '../../../configs/_base_/models/classifier_cls_token.py', '../_base_/datasets/fashion_canvas.py',
    '../_base_/schedules/fashion_10e.py', '../../../configs/_base_/default_runtime.py'
]
model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch=dict(embed_dims=128, depth=5, num_heads=4),
        attn_types='L',
        linear_attention=dict(type='FocusedLinearAttention'),
        img_size=224,
        patch_size=4,
        drop_path_rate=0.0),
    head=dict(in_channels=128, num_classes=10),
    train_cfg=None)  # neither Mixup nor CutMix

auto_scale_lr = dict(base_batch_size=16)
