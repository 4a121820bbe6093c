"""MHLA-DeiT-T on ImageNet-1k.

MHLA, in the paper: 75.8 % top-1, 5.7 M parameters. Not run by this project.

No class token; positions, and the norm of the mean of the tokens before the head. A border pads 224
x 224 to 256 x 256, so that 4 x 4 blocks of 4 x 4 tokens fit. As in the released code the blocks
have layer norms, where the paper has RMS norms, and attention divides by the queries of all blocks.
Inferred: it trains like DeiT.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(type='TokenLevelMultiHeadAttention', num_blocks=16),
        qkv_bias=False,
        with_cls_token=False,
        out_type='avg_featmap',
        border=1,
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=192),
)
