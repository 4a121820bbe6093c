"""Recall of 32 pairs with eight heads of width 8 in place of two of width 32.

Run by this project in studies alone: lab/docs/fingerprint.md.
"""
_base_ = './recall-32.py'
model = dict(backbone=dict(arch=dict(num_heads=8)))
