"""Neighbour: which value is in the cell to the right, on a grid of 36?

Run by this project in studies alone: lab/docs/fingerprint.md.
"""
_base_ = './base.py'
model = dict(backbone=dict(img_size=48))
train_dataloader = dict(batch_size=32, dataset=dict(ability='neighbour', size=6, number=40000))
val_dataloader = test_dataloader = dict(dataset=dict(ability='neighbour', size=6))
