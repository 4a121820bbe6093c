"""Mask2Former of reduced width for semantic segmentation of the digit scenes, 12 epochs from a
pre-trained backbone.

A config adds the backbone with its weights and `decode_head.in_channels`.
"""

_base_ = [
    '../models/mask2former_segmentor_nano.py',
    '../datasets/digits_seg.py',
    '../schedules/digits_12e_finetune.py',
    '../default_runtime.py',
]
# A loader in a process of its own keeps a core from the training.
train_dataloader = dict(
    batch_size=4,
    num_workers=0,
    persistent_workers=False,
    sampler=dict(type='DefaultSampler'),  # the schedule counts epochs
)
