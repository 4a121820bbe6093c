"""Offset: which of 16 values is in the cell at which a pointer points, two cells away?

Run by this project in studies alone: lab/docs/fingerprint.md.
"""
_base_ = './match.py'
train_dataloader = val_dataloader = test_dataloader = dict(dataset=dict(ability='offset'))
