"""Garment scenes in ADE20K's layout, 160 x 160; loaded as the digit scenes. Made by
`mmflatten garments scenes`.

1 is background and 2 to 11 are the classes; 0, the soft rim of a garment, is ignored.
"""

_base_ = ['../../../../configs/_base_/datasets/digits_seg.py']

data_root = 'data/garments'
classes = (
    'T-shirt',
    'trouser',
    'pullover',
    'dress',
    'coat',
    'sandal',
    'shirt',
    'sneaker',
    'bag',
    'ankle boot',
)
metainfo = dict(classes=('background',) + classes)

train_dataloader = dict(dataset=dict(data_root=data_root, metainfo=metainfo))
val_dataloader = dict(dataset=dict(data_root=data_root, metainfo=metainfo))
test_dataloader = val_dataloader
