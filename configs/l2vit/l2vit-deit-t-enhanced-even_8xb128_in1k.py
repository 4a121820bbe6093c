"""DeiT-T with the enhanced linear attention of L2ViT in every second block.

L2ViT, Table 11: 72.8 % top-1 (72.2 without), 5.7 M parameters, 1.3 G FLOPs. Not run by this
project. Local concentration reads the bare attention here, `x + y + LCM(LN(y))`, where eq. 8 of the
paper has it behind the residual.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

# Softmax stays in the blocks 1, 3, 5, 7, 9 and 11.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='SLSLSLSLSLSL',
        linear_attention=dict(type='ClampedLinearAttention', lcm_kernel=3),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=192),
)
