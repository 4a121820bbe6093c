"""EncoderMaskHead of reduced width on the digit scenes, instances, 15 epochs.

A config adds the backbone, `panoptic_head.in_channels` and `panoptic_head.anneal_steps`.
"""

_base_ = [
    '../models/encoder-mask_nano.py',
    '../datasets/digits_coco.py',
    '../schedules/digits_15e.py',
    '../default_runtime.py',
]
# small batches, for the same scenes teach more in more steps
train_dataloader = dict(batch_size=4, num_workers=1)
auto_scale_lr = dict(base_batch_size=4)
