"""One stage of Swin, of the size of DeiT nano, that labels the tokens of canvases of garments.

An attention of the whole map in place of the windows, and a 3 x 3 convolution in the feed-forward networks, without
which such an attention would not know which tokens are neighbours.
"""
_base_ = ['./deit-nano_canvases.py']

model = dict(
    backbone=dict(
        _delete_=True,
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=64, depths=(4,), num_heads=(2,)),
        attn_types='L',
        linear_attention=dict(type='SoftmaxAttention'),
        conv_ffn=True,
        img_size=56,
        drop_path_rate=0.0,
        out_indices=(0,)))
