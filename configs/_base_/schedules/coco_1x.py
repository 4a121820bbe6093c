"""COCO, 12 epochs of AdamW for a total batch of 16 (8 GPUs x 2 images).

The recipe of the same lab's Swin detectors (Agent-Attention `downstream/detection`); FLatten's own
is not published. Focal Transformer has the same optimizer (sec. 4.2).
"""

# Norms get no weight decay, nor do position tables: Swin's, Focal's two for keys outside of the
# window, and Agent-Attention's two. FLatten's `positional_encoding` and `scale` do, as in its
# classifiers; what its detectors did is not published.
paramwise_cfg = dict(
    custom_keys={
        'relative_position_bias': dict(decay_mult=0.0),
        'neighbor_bias': dict(decay_mult=0.0),
        'pooled_bias': dict(decay_mult=0.0),
        'key_bias': dict(decay_mult=0.0),
        'query_bias': dict(decay_mult=0.0),
        'norm': dict(decay_mult=0.0),
    }
)

optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=1e-4, weight_decay=0.05, betas=(0.9, 0.999)),
    paramwise_cfg=paramwise_cfg,
)

param_scheduler = [
    dict(type='LinearLR', start_factor=0.001, by_epoch=False, begin=0, end=500),
    dict(type='MultiStepLR', by_epoch=True, begin=0, end=12, milestones=[8, 11], gamma=0.1),
]

train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=12, val_interval=1)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')

auto_scale_lr = dict(base_batch_size=16)
