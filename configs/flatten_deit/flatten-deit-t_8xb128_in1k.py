"""FLatten-DeiT-T on ImageNet-1k.

FLatten Transformer, Tables 3a, 4 and 8: 74.1 % top-1, 6.1 M parameters, 1.1 G FLOPs. Not run by
this project. The official repository has no FLatten-DeiT; a script that an author linked in its
issue 12 was not compared. Class token and position embedding stay, as in the same lab's other
DeiTs, and all blocks are linear (Table 9). Recipe: DeiT's, because the paper trains with "the exact
same settings" as the baseline.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT', arch='tiny', attn_types='L', img_size=224, drop_path_rate=0.1
    ),
    head=dict(in_channels=192),
)
