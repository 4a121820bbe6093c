"""One stage of Swin, of the size of DeiT nano, that labels the tokens of canvases of garments.

Softmax attention in windows of 7 x 7 with relative positions, letter S, or another attention of the whole map.
"""
_base_ = ['./deit-nano_canvases.py']

model = dict(
    backbone=dict(
        _delete_=True,
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=64, depths=(4,), num_heads=(2,)),
        attn_types='L',
        linear_attention=dict(type='SoftmaxAttention'),
        img_size=56,
        softmax_window=7,
        drop_path_rate=0.0,
        out_indices=(0,)))
