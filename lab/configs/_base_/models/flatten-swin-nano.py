"""FLatten-Swin for Fashion-MNIST, 10 epochs. The config that inherits it gives the data and `backbone.img_size`."""
_base_ = [
    '../../../../configs/_base_/models/classifier.py',
    '../schedules/fashion_10e.py',
    '../../../../configs/_base_/default_runtime.py',
]
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=32, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16)),
        attn_types='LLSS',
        linear_attention=dict(type='FocusedLinearAttention'),
        softmax_window=7,
        drop_path_rate=0.0),
    head=dict(in_channels=256, num_classes=10),
    train_cfg=None)  # neither Mixup nor CutMix
