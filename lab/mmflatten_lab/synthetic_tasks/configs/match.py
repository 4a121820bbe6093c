"""Match: 8 cells with a mark; for half of them one of the 8 others has the same symbol.

Run by this project in studies alone: lab/docs/fingerprint.md.
"""
_base_ = './base.py'
model = dict(backbone=dict(img_size=32))
train_dataloader = dict(batch_size=64, dataset=dict(ability='match', size=4, number=80000))
val_dataloader = test_dataloader = dict(dataset=dict(ability='match', size=4))
