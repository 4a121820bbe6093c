"""Classifier with a tiny Swin on single digits cut from the digit scenes, with
CBSA (Wen et al., NeurIPS 2025) in its first two stages.

Not run by this project beyond a few test iterations.
"""

_base_ = ['./flatten-swin-nano_digits.py']

model = dict(
    backbone=dict(mixers=dict(L=dict(type='ContractBroadcastAttention', num_representatives=16)))
)
