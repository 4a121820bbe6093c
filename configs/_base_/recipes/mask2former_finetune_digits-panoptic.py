"""Mask2Former of reduced width on the panoptic digit scenes, otherwise as
mask2former_finetune_digits.py.

A config adds the backbone with its weights and `panoptic_head.in_channels`.
"""

_base_ = [
    '../models/mask2former_panoptic_nano.py',
    '../datasets/digits_panoptic.py',
    '../schedules/digits_12e_finetune.py',
    '../default_runtime.py',
]
# A loader in a process of its own keeps a core from the training.
train_dataloader = dict(batch_size=4, num_workers=0, persistent_workers=False)
