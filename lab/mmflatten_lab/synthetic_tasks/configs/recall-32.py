"""Recall: 32 pairs of a key and a value, and 32 keys that ask for a value.

Run by this project in studies alone: lab/docs/fingerprint.md.
"""
_base_ = './base.py'
train_dataloader = val_dataloader = test_dataloader = dict(dataset=dict(ability='recall', pairs=32))
