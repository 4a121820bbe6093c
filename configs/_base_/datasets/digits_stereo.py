"""Stereo pairs of digit scenes, 96 x 192, in SceneFlow's layout; 4 pairs per batch, counted in
epochs.

Made by `tools/dataset/prepare_digits.py --stereo`. Disparities are below 38.4 pixels.
"""

dataset_type = 'mmflatten.SceneFlowDataset'
data_root = 'data/digits_stereo'

train_pipeline = [
    dict(type='mmflatten.LoadStereoPair'),
    dict(type='mmflatten.LoadDisparity'),
    dict(type='mmflatten.StereoRandomCrop', crop_size=(96, 160)),
    dict(
        type='mmflatten.StereoPhotometricJitter',
        brightness=0.2,
        contrast=0.2,
        saturation=0.2,
        gamma=0.1,
    ),
    dict(type='mmflatten.PackStereoInputs'),
]
test_pipeline = [
    dict(type='mmflatten.LoadStereoPair'),
    dict(type='mmflatten.LoadDisparity'),
    dict(type='mmflatten.PackStereoInputs'),
]

train_dataloader = dict(
    batch_size=4,
    num_workers=1,
    persistent_workers=True,
    drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(type=dataset_type, data_root=data_root, split='TRAIN', pipeline=train_pipeline),
)
val_dataloader = dict(
    batch_size=4,
    num_workers=1,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type, data_root=data_root, split='TEST', test_mode=True, pipeline=test_pipeline
    ),
)
test_dataloader = val_dataloader

val_evaluator = dict(type='mmflatten.StereoMetric', max_disp=48)
test_evaluator = val_evaluator

# Draws the first pair of every tenth validation batch.
custom_hooks = [dict(type='mmflatten.DrawValidationHook', interval=10)]
