"""One stage of PVT, of the size of DeiT nano, that labels the tokens of canvases of garments.

A table of positions, which is resized; softmax attention with keys reduced twice, letter S, or another one of all keys.
"""
_base_ = ['./deit-nano_canvases.py']

model = dict(
    backbone=dict(
        _delete_=True,
        type='mmflatten.FLattenPVT',
        arch=dict(embed_dims=(64,), depths=(4,), num_heads=(2,), mlp_ratios=(4,)),
        attn_types='L',
        linear_attention=dict(type='SoftmaxAttention'),
        img_size=56,
        sr_ratios=(2,),
        linear_sr_ratios=(1,),
        drop_path_rate=0.0,
        out_indices=(0,)))
