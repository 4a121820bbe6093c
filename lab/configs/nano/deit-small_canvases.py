"""DeiT-S that labels the tokens of canvases of garments: 21 million parameters.

Validated once, on garments that neither the training nor the test sees, which chooses the learning rate.
"""
_base_ = ['./deit-nano_canvases.py']

model = dict(
    backbone=dict(arch=dict(embed_dims=384, depth=12, num_heads=6)), head=dict(in_channels=384))

train_cfg = dict(val_interval=1000)
val_cfg = dict(type='ValLoop')
val_evaluator = dict(type='mmflatten.CellAccuracy')
val_dataloader = dict(
    batch_size=32,
    num_workers=0,
    collate_fn=dict(type='default_collate'),
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(type='mmflatten.GarmentCanvases', split='choice', canvases=[(2, 1, 1024)], seed=1))
