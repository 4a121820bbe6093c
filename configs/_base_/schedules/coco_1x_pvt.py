"""COCO, 12 epochs of AdamW for a total batch of 16 (8 GPUs x 2 images): Mask R-CNN with PVT and its like.

The recipe of the same lab's PVT detectors (Agent-Attention `downstream/detection`), which spares nothing from weight
decay. RetinaNet has half of the rate there: `optim_wrapper.optimizer.lr=1e-4`.
"""
_base_ = ['./coco_1x.py']

optim_wrapper = dict(
    _delete_=True,
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=2e-4, weight_decay=1e-4, betas=(0.9, 0.999)))
