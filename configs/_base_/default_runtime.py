"""Runtime of every config, whatever its task.

`default_scope` (mmpretrain, mmdet, mmseg) and the visualizer differ by task and stand beside the
model. The checkpoint and log hooks count what the schedule's loop counts, epochs or iterations.
"""

default_hooks = dict(
    # Reads the losses from the device once per logging interval.
    runtime_info=dict(type='mmflatten.RuntimeInfoHook'),
    timer=dict(type='IterTimerHook'),
    sampler_seed=dict(type='DistSamplerSeedHook'),
    logger=dict(type='mmflatten.LoggerHook', interval=50),
    param_scheduler=dict(type='ParamSchedulerHook'),
    # Saves whenever the schedule validates, keeps the three newest, and never replaces a whole file
    # by part of one.
    checkpoint=dict(type='mmflatten.CheckpointHook', max_keep_ckpts=3),
    # Stops at a NaN or infinite loss when it is read, before the weights it spoils are saved.
    finite_loss=dict(type='mmflatten.FiniteLossHook'),
    # Compares the classes of data and model, and names the file when an image cannot be decoded.
    data_checks=dict(type='mmflatten.CheckDataHook'),
)

env_cfg = dict(
    cudnn_benchmark=False,
    mp_cfg=dict(mp_start_method='fork', opencv_num_threads=0),
    dist_cfg=dict(backend='nccl'),
)  # tools/dist_train.sh takes gloo where there is no GPU

randomness = dict(seed=None, deterministic=False)
log_level = 'INFO'
load_from = None
resume = False
