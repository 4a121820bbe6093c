"""Garment scenes with boxes and masks, 160 x 160; loaded as the digit scenes. Made by
`mmflatten garments scenes`.
"""

_base_ = ['../../../../configs/_base_/datasets/digits_coco.py']

data_root = 'data/garments/'
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
metainfo = dict(classes=classes)

train_dataloader = dict(dataset=dict(data_root=data_root, metainfo=metainfo))
val_dataloader = dict(dataset=dict(data_root=data_root, metainfo=metainfo))
test_dataloader = val_dataloader

val_evaluator = dict(ann_file=data_root + 'annotations/instances_val.json')
test_evaluator = val_evaluator
