"""FLatten-DeiT for Fashion-MNIST, 10 epochs. The config that inherits it gives the data and `backbone.img_size`."""
_base_ = [
    '../../../../configs/_base_/models/classifier_cls_token.py',
    '../schedules/fashion_10e.py',
    '../../../../configs/_base_/default_runtime.py',
]
model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch=dict(embed_dims=128, depth=5, num_heads=4),
        attn_types='L',
        linear_attention=dict(type='FocusedLinearAttention'),
        patch_size=4,
        drop_path_rate=0.0),
    head=dict(in_channels=128, num_classes=10),
    train_cfg=None)  # neither Mixup nor CutMix
