"""Stereo pairs of garment scenes, 96 x 192; loaded as the digit pairs. Made by
`mmflatten garments scenes --stereo`.
"""

_base_ = ['../../../../configs/_base_/datasets/digits_stereo.py']

data_root = 'data/garments_stereo'

train_dataloader = dict(dataset=dict(data_root=data_root))
val_dataloader = dict(dataset=dict(data_root=data_root))
test_dataloader = val_dataloader
