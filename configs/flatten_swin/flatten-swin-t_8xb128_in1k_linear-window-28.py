"""FLatten-Swin-T with linear attention in windows of 28 x 28 instead of over the whole map.

FLatten Transformer, Table 6: 81.9 % top-1 (82.1 with the whole map, 56 x 56). Not run by this
project. Every second block shifts its windows, without a mask, as in the official code.
"""

_base_ = ['./flatten-swin-t_8xb128_in1k.py']

model = dict(backbone=dict(linear_window=28))
