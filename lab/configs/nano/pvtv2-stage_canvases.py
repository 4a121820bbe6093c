"""One stage of PVTv2, of the size of DeiT nano, that labels the tokens of canvases of garments.

An attention of all keys, or the softmax attention of the family with keys reduced twice, letter S.
"""
_base_ = ['./deit-nano_canvases.py']

model = dict(
    backbone=dict(
        _delete_=True,
        type='mmflatten.FLattenPVTv2',
        arch=dict(embed_dims=(64,), depths=(4,), num_heads=(2,), mlp_ratios=(4,)),
        attn_types='L',
        linear_attention=dict(type='SoftmaxAttention'),
        img_size=56,
        sr_ratios=(2,),
        linear_sr_ratios=(1,),
        drop_path_rate=0.0,
        out_indices=(0,)))
