"""Two blocks of DeiT that learn a synthetic task: a grid of 64 cells, one token each, with a label
for each cell.

The study `suite.yaml` sets the task: lab/docs/fingerprint.md.
"""

custom_imports = dict(imports=['mmflatten_lab.datasets', 'mmflatten_lab.models'])
default_scope = 'mmpretrain'
dataset_type = 'mmflatten.SyntheticTasks'
data_preprocessor = dict(mean=[0.0] * 3, std=[64.0] * 3, to_rgb=False)
model = dict(
    type='ImageClassifier',
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch=dict(embed_dims=64, depth=2, num_heads=2),
        attn_types='L',
        linear_attention=dict(type='SoftmaxAttention'),
        with_cls_token=False,
        out_type='featmap',
        img_size=64,
        patch_size=8,
        drop_path_rate=0.0,
    ),
    neck=None,
    head=dict(type='mmflatten.CellHead', in_channels=64, num_classes=16),
)

_loader = dict(num_workers=0, collate_fn=dict(type='default_collate'))
train_dataloader = dict(
    **_loader,
    batch_size=16,
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(type=dataset_type, number=20000, size=8),
)
test_dataloader = dict(
    **_loader,
    batch_size=100,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(type=dataset_type, number=1000, size=8, split='test'),
)
test_evaluator = dict(type='mmflatten.CellAccuracy')

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=1)
test_cfg = dict(type='TestLoop')
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=2e-3, weight_decay=0.05),
    clip_grad=dict(max_norm=5.0),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end=62),
    dict(
        type='CosineAnnealingLR',
        eta_min=1e-5,
        by_epoch=True,
        begin=0,
        end=1,
        convert_to_iter_based=True,
    ),
]
