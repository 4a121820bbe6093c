"""Mask2Former with a tiny FLatten-Swin on the digit scenes, from random weights on a CPU.

Six epochs are too few for it. Run by this project: 0.015 mask mAP on the 200 held-out scenes after
2 epochs (500 iterations), where Mask R-CNN has 0.474 box mAP; and 0.021 after 1500 iterations of a
run with a rate of 1e-3. By then the queries find the digits (a dice loss of 0.1), but hardly tell
them apart (a classification loss of 2.05; ln 10 is a guess). docs/measurements/query_heads.md has
what helps: a pre-trained backbone, trained at a tenth of the rate.
"""

_base_ = ['../_base_/recipes/mask2former_digits.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch=dict(embed_dims=32, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16)),
        attn_types='LLSS',
        img_size=160,
        softmax_window=5,
        drop_path_rate=0.0,
    ),
    panoptic_head=dict(in_channels=[32, 64, 128, 256]),
)
