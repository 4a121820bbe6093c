"""Canvases of 8 x 8 garments, 224 x 224, of which the one on the red ground is to be named; 16 per batch.

Made by `mmflatten garments canvases`.
"""
_base_ = ['./fashion_28.py']

data_root = 'data/canvases'
image_size = 224
train_pipeline = [_base_.train_pipeline[0], _base_.train_pipeline[2], _base_.train_pipeline[-1]]
test_pipeline = [_base_.test_pipeline[0], _base_.test_pipeline[-1]]
tta_pipeline = [
    _base_.tta_pipeline[0],
    dict(type='TestTimeAug', transforms=_base_.tta_pipeline[1]['transforms'][1:])
]

train_dataloader = dict(batch_size=16, dataset=dict(data_root=data_root, pipeline=train_pipeline))
val_dataloader = dict(batch_size=32, dataset=dict(data_root=data_root, pipeline=test_pipeline))
test_dataloader = val_dataloader
