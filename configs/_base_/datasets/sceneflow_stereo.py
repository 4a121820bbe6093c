"""SceneFlow, clean pass: random crops of 256 x 512, tested on whole images of 540 x 960; 3 pairs
per GPU.

Trained on FlyingThings3D (TRAIN), Monkaa and Driving together, tested on FlyingThings3D (TEST),
without any augmentation, as PSMNet is (35,454 and 4,370 pairs by its paper). The archives unpack
into data/sceneflow/{flyingthings3d,monkaa,driving}.
"""

dataset_type = 'mmflatten.SceneFlowDataset'
data_root = 'data/sceneflow'
render_pass = 'clean'

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

common = dict(type=dataset_type, data_root=data_root, render_pass=render_pass)
train_dataloader = dict(
    batch_size=3,
    num_workers=6,
    persistent_workers=True,
    drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(
        type='ConcatDataset',
        datasets=[
            dict(subset='flyingthings3d', split='TRAIN', pipeline=train_pipeline, **common),
            dict(subset='monkaa', pipeline=train_pipeline, **common),
            dict(subset='driving', pipeline=train_pipeline, **common),
        ],
    ),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        subset='flyingthings3d', split='TEST', test_mode=True, pipeline=test_pipeline, **common
    ),
)
test_dataloader = val_dataloader

# Pixels of 192 and more do not count, as in PSMNet; its code averages over batches of 8, this
# metric over pixels.
val_evaluator = dict(type='mmflatten.StereoMetric', max_disp=192)
test_evaluator = val_evaluator

custom_hooks = [dict(type='mmflatten.DrawValidationHook', interval=500)]
