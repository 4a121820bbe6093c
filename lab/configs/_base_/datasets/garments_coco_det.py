"""Garment scenes with boxes alone, for detectors without masks: otherwise as garments_coco.py."""
_base_ = ['../../../../configs/_base_/datasets/digits_coco.py']

data_root = 'data/garments/'
classes = ('T-shirt', 'trouser', 'pullover', 'dress', 'coat', 'sandal', 'shirt', 'sneaker', 'bag', 'ankle boot')
metainfo = dict(classes=classes)
boxes = dict(type='LoadAnnotations', with_bbox=True)
train_pipeline = [_base_.train_pipeline[0], boxes, *_base_.train_pipeline[2:]]
test_pipeline = [*_base_.test_pipeline[:2], boxes, _base_.test_pipeline[-1]]

train_dataloader = dict(dataset=dict(data_root=data_root, metainfo=metainfo, pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(data_root=data_root, metainfo=metainfo, pipeline=test_pipeline))
test_dataloader = val_dataloader

val_evaluator = dict(ann_file=data_root + 'annotations/instances_val.json', metric='bbox')
test_evaluator = val_evaluator
