"""Size transfer: recall of 8 pairs among 196 cells, tested among 784.

Run by this project in studies alone: lab/docs/fingerprint.md.
"""
_base_ = './recall-8.py'
model = dict(backbone=dict(img_size=112))
train_dataloader = dict(batch_size=8, dataset=dict(size=14, number=10000))
val_dataloader = dict(dataset=dict(size=14, number=200))
test_dataloader = dict(batch_size=25, dataset=dict(size=28, number=200))
