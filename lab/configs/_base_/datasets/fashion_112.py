"""Fashion-MNIST enlarged to 112 x 112: 784 patches of 4 x 4. Cropped before it is enlarged, as at 28 pixels."""
_base_ = ['./fashion_28.py']

image_size = 112
resize = dict(type='Resize', scale=(image_size, image_size), interpolation='bicubic')
train_pipeline = [*_base_.train_pipeline[:3], resize, _base_.train_pipeline[-1]]
test_pipeline = [_base_.test_pipeline[0], resize, _base_.test_pipeline[-1]]
tta_pipeline = [
    _base_.tta_pipeline[0],
    dict(type='TestTimeAug', transforms=[[resize], *_base_.tta_pipeline[1]['transforms'][1:]])
]

train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
