"""FLatten-Swin-T with linear attention in all four stages.

FLatten Transformer, Table 7: 81.9 % top-1 (82.1 with the first two, LLSS). Not run by this project.
"""

_base_ = ['./flatten-swin-t_8xb128_in1k.py']

model = dict(backbone=dict(attn_types='LLLL'))
