"""DeiT nano that labels the tokens of canvases of garments: trained at 196 tokens, tested at 49 to
3,136.

The model and recipe of the synthetic tasks, with four blocks. No table of positions; a 3 x 3
convolution before each block tells them. See lab/docs/third_study.md.
"""

_base_ = ['../../mmflatten_lab/synthetic_tasks/base.py']

dataset_type = 'mmflatten.GarmentCanvases'
data_preprocessor = dict(mean=[72.94] * 3, std=[90.02] * 3)
model = dict(
    backbone=dict(
        arch=dict(depth=4), with_positions=False, cpe_kernel=3, img_size=56, patch_size=4
    ),
    head=dict(num_classes=10),
)

train_dataloader = dict(
    sampler=dict(_delete_=True, type='InfiniteSampler', shuffle=True),
    dataset=dict(_delete_=True, type=dataset_type, split='train', canvases=[(2, 1, 16000)]),
)
test_dataloader = dict(
    batch_size=32,  # divides the numbers of canvases, so that those of a batch have one size
    dataset=dict(
        _delete_=True,
        type=dataset_type,
        split='val',
        canvases=[(1, 1, 1024), (2, 1, 1024), (4, 1, 512), (8, 1, 128), (2, 2, 512), (2, 4, 128)],
        seed=1,
    ),
)

train_cfg = dict(_delete_=True, type='IterBasedTrainLoop', max_iters=1000)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end=50),
    dict(type='CosineAnnealingLR', eta_min=1e-5, by_epoch=False, begin=50, end=1000),
]
