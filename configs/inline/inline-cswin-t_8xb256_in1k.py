"""InLine-CSwin-T on ImageNet-1k.

InLine, README: 83.2 % top-1, 25 M parameters. Not run by this project. Inferred: it trains like
FLatten-CSwin-T, of the same lab; the drop path is the authors'. The image's own convolution sees
the block's input behind its norm, the official one before it.
"""

_base_ = ['../_base_/recipes/flatten-cswin_310e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch='tiny',
        attn_types='LLSS',
        linear_attention=dict(type='InLineAttention'),
        img_size=224,
        drop_path_rate=0.2,
    ),
    head=dict(in_channels=512),
)
