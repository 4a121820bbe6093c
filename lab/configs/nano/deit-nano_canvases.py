"""DeiT nano that labels the tokens of canvases of garments: trained at 196 tokens, tested at 49 to 3,136.

No table of positions; a 3 x 3 convolution before each block tells them. See lab/docs/third_study.md.
"""
custom_imports = dict(imports=['mmflatten_lab.datasets', 'mmflatten_lab.models'])
default_scope = 'mmpretrain'
dataset_type = 'mmflatten.GarmentCanvases'
data_preprocessor = dict(mean=[72.94] * 3, std=[90.02] * 3, to_rgb=False)
model = dict(
    type='ImageClassifier',
    backbone=dict(
        type='mmflatten.FLattenDeiT',
        arch=dict(embed_dims=64, depth=4, num_heads=2),
        attn_types='L',
        linear_attention=dict(type='SoftmaxAttention'),
        with_cls_token=False,
        with_positions=False,
        cpe_kernel=3,
        out_type='featmap',
        img_size=56,
        patch_size=4,
        drop_path_rate=0.0),
    neck=None,
    head=dict(type='mmflatten.CellHead', in_channels=64, num_classes=10))

_loader = dict(num_workers=0, collate_fn=dict(type='default_collate'))
train_dataloader = dict(
    **_loader,
    batch_size=16,
    sampler=dict(type='InfiniteSampler', shuffle=True),
    dataset=dict(type=dataset_type, split='train', canvases=[(2, 1, 16000)]))
test_dataloader = dict(
    **_loader,
    batch_size=32,  # divides the numbers of canvases, so that those of a batch have one size
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type,
        split='val',
        canvases=[(1, 1, 1024), (2, 1, 1024), (4, 1, 512), (8, 1, 128), (2, 2, 512), (2, 4, 128)],
        seed=1))
test_evaluator = dict(type='mmflatten.CellAccuracy')

train_cfg = dict(type='IterBasedTrainLoop', max_iters=1000)
test_cfg = dict(type='TestLoop')
optim_wrapper = dict(
    type='OptimWrapper', optimizer=dict(type='AdamW', lr=2e-3, weight_decay=0.05), clip_grad=dict(max_norm=5.0))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end=50),
    dict(type='CosineAnnealingLR', eta_min=1e-5, by_epoch=False, begin=50, end=1000),
]
