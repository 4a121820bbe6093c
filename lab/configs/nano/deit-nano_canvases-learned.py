"""The far task of `deit-nano_canvases.py`, trained until it is learned: lab/docs/third_study.md.

The first tenth of the steps has canvases whose four garments are copies of the red one, so that its
class can be learned before it has to be found. The canvases of the test grow by more garments, by
more of them with the share of red ones kept, and by black.
"""

_base_ = ['deit-nano_canvases.py']

train_dataloader = dict(
    sampler=dict(_delete_=True, type='mmflatten.StageSampler', stages=[2400, 21600]),
    dataset=dict(task='far', canvases=[(2, 1, 2400, 'copies'), (2, 1, 21600)]),
)
test_dataloader = dict(
    batch_size=8,  # divides the numbers of canvases
    dataset=dict(
        task='far',
        canvases=[
            (2, 1, 512),
            (4, 1, 256),
            (4, 1, 256, 'kept'),
            (4, 1, 256, 'padded'),
            (8, 1, 104),
            (8, 1, 104, 'kept'),
            (8, 1, 104, 'padded'),
        ],
    ),
)
test_evaluator = dict(with_errors=True, with_commonest=True)
optim_wrapper = dict(
    optimizer=dict(lr=3e-3, betas=(0.9, 0.98)), clip_grad=dict(_delete_=True, max_norm=1.0)
)
train_cfg = dict(max_iters=1500)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.005, by_epoch=False, begin=0, end=150),
    dict(type='CosineAnnealingLR', eta_min=3e-5, by_epoch=False, begin=150, end=1500),
]
default_hooks = dict(checkpoint=dict(type='CheckpointHook', by_epoch=False, interval=250))
