"""Count: how many of 16 cells have the same symbol?

Run by this project in studies alone: lab/docs/fingerprint.md.
"""
_base_ = './match.py'
train_dataloader = val_dataloader = test_dataloader = dict(dataset=dict(ability='count'))
