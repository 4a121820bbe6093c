"""DeiT-T with the enhanced linear attention of L2ViT: a bounded denominator, a scale and local
concentration.

L2ViT, Tables 1 and 8: 73.3 % top-1, 5.8 M parameters, 1.3 G FLOPs. Not run by this project.
Local concentration reads the bare attention here, `x + y + LCM(LN(y))`, where eq. 8 of the paper
has it behind the residual.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

# The paper names no kernel of the local concentration in DeiT. Of the odd ones only 3 gives the
# parameters that it prints, here and for every second block (5.7 M); 7 x 7, as in L2ViT, would make
# 5.96 M here.
model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch='tiny',
        attn_types='L',
        linear_attention=dict(type='ClampedLinearAttention', lcm_kernel=3),
        img_size=224,
        drop_path_rate=0.1,
    ),
    head=dict(in_channels=192),
)
