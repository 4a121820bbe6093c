"""EncoderMaskHead of reduced width on the digit scenes, instances, 12 epochs from a pre-trained
backbone.

A config adds the backbone with its weights, `panoptic_head.in_channels` and
`panoptic_head.anneal_steps`.
"""

_base_ = [
    '../models/encoder-mask_nano.py',
    '../datasets/digits_coco.py',
    '../schedules/digits_12e_finetune.py',
    '../default_runtime.py',
]
# A loader in a process of its own keeps a core from the training.
train_dataloader = dict(batch_size=4, num_workers=0, persistent_workers=False)
