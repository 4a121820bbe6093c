"""Classifier with a tiny Swin on single digits cut from the digit scenes, with
TSSA of ToST (Wu et al., ICLR 2025) in its first two stages.

Not run by this project beyond a few test iterations.
"""

_base_ = ['./flatten-swin-nano_digits.py']

model = dict(backbone=dict(mixers=dict(L=dict(type='TokenStatisticsAttention'))))
