"""KITTI stereo 2015: random crops of 256 x 512 of the first 160 pairs, tested on the other 40
whole; 3 pairs per GPU.

The archive unpacks into data/kitti/2015. For 2012, a config replaces `data_root` and `year` of the
three loaders.
"""

dataset_type = 'mmflatten.KITTIStereoDataset'
data_root = 'data/kitti/2015'
year = 2015

train_pipeline = [
    dict(type='mmflatten.LoadStereoPair'),
    dict(type='mmflatten.LoadDisparity'),
    dict(type='mmflatten.StereoRandomCrop', crop_size=(256, 512)),
    dict(type='mmflatten.PackStereoInputs'),
]
test_pipeline = [
    dict(type='mmflatten.LoadStereoPair'),
    dict(type='mmflatten.LoadDisparity'),
    dict(type='mmflatten.PackStereoInputs'),
]

train_dataloader = dict(
    batch_size=3,
    num_workers=4,
    persistent_workers=True,
    drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(
        type=dataset_type, data_root=data_root, year=year, split='train', pipeline=train_pipeline
    ),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=2,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        year=year,
        split='val',
        test_mode=True,
        pipeline=test_pipeline,
    ),
)
test_dataloader = val_dataloader

# the benchmark counts every measured pixel
val_evaluator = dict(type='mmflatten.StereoMetric', max_disp=None)
test_evaluator = val_evaluator

custom_hooks = [dict(type='mmflatten.DrawValidationHook', interval=10)]
