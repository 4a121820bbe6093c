"""ImageNet, 300 epochs of AdamW and 10 more at the lowest rate, with averaged weights:
FLatten-CSwin.

The official `cfgs/flatten_cswin_*.yaml` and `main_ema.py`: 20 epochs of warm-up, no gradient
clipping. The rate is that of FLatten-CSwin-S, a total batch of 1024; rates are given for a batch of
512 and scaled with it. The first and the last one are parts of the highest, so a config of another
batch gives `lr` alone.
"""

_base_ = ['./imagenet_adamw_310e_flatten-pvt.py']

param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=1e-6 / 5e-4,
        by_epoch=True,
        begin=0,
        end=20,
        convert_to_iter_based=True,
    ),
    *_base_.param_scheduler[1:],
]

# All weights averaged at every iteration from the first on, with a decay of 0.99984 = 1 - momentum.
# The averages are validated, tested, and saved as `state_dict`; the weights themselves are saved as
# `ema_state_dict`.
custom_hooks = [dict(type='EMAHook', momentum=1.6e-4, update_buffers=True)]
