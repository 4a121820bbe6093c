"""FLatten-Swin-T with linear attention in windows of 14 x 14 instead of over the whole map.

FLatten Transformer, Table 6: 81.8 % top-1 (82.1 with the whole map, 56 x 56). Not run by this
project. Every second block shifts its windows, without a mask, as in the official code.
"""

_base_ = ['./flatten-swin-t_8xb128_in1k.py']

model = dict(backbone=dict(linear_window=14))
