"""Swin-B on ImageNet-1k at 384 x 384, the baseline of FLatten-Swin-B at that size.

FLatten Transformer, Table 8 (from Swin's paper): 84.5 % top-1, 88 M parameters, 47.0 G FLOPs. Not
run by this project. Fine-tuned like FLatten-Swin-B, from a checkpoint of swin-b_8xb64_in1k.py or a
converted official one.
"""

_base_ = ['../_base_/recipes/swin_30e_in1k-384px.py']
load_from = 'checkpoints/swin-b_in1k.pth'

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='base',
        attn_types='SSSS',
        img_size=384,
        softmax_window=12,
        drop_path_rate=0.5,
    ),
    head=dict(in_channels=1024),
)
