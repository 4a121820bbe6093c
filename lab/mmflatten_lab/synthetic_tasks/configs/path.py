"""Path: is a cell connected with the mark?

Run by this project in studies alone: lab/docs/fingerprint.md.
"""
_base_ = './base.py'
train_dataloader = val_dataloader = test_dataloader = dict(dataset=dict(ability='path'))
