"""Fashion-MNIST at its own 28 x 28, as RGB; 64 images per batch. Made by `mmflatten garments images`.

The lists are in the published order, which mixes the classes, so `dataset.indices=2000` takes a fair part of them.
"""
dataset_type = 'CustomDataset'
data_root = 'data/fashion'
image_size = 28
classes = ('T-shirt', 'trouser', 'pullover', 'dress', 'coat', 'sandal', 'shirt', 'sneaker', 'bag', 'ankle boot')
# Mean and deviation of the 60,000 training images.
data_preprocessor = dict(num_classes=10, mean=[72.94] * 3, std=[90.02] * 3, to_rgb=True)

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='RandomCrop', crop_size=28, padding=2),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='Resize', scale=(image_size, image_size), interpolation='bicubic'),
    dict(type='PackInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(image_size, image_size), interpolation='bicubic'),
    dict(type='PackInputs'),
]
tta_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(
        type='TestTimeAug',
        transforms=[
            [dict(type='Resize', scale=(image_size, image_size), interpolation='bicubic')],
            [dict(type='RandomFlip', prob=prob, direction='horizontal') for prob in (0., 1.)],
            [dict(type='PackInputs')],
        ]),
]

train_dataloader = dict(
    batch_size=64,
    num_workers=1,
    persistent_workers=True,
    collate_fn=dict(type='default_collate'),
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        data_prefix='train',
        ann_file='train.txt',
        metainfo=dict(classes=classes),
        pipeline=train_pipeline))
val_dataloader = dict(
    batch_size=256,
    num_workers=1,
    persistent_workers=True,
    collate_fn=dict(type='default_collate'),
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        data_prefix='val',
        ann_file='val.txt',
        metainfo=dict(classes=classes),
        pipeline=test_pipeline))
test_dataloader = val_dataloader

val_evaluator = dict(type='Accuracy', topk=(1, 5))
test_evaluator = val_evaluator
