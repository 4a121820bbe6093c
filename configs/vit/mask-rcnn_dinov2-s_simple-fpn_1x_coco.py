"""Mask R-CNN with a fine-tuned DINOv2 ViT-S/14 and a simple feature pyramid on COCO, 12 epochs.

No paper reports it. Not run by this project. The rates of the backbone decay by layer.
"""
_base_ = ['./mask-rcnn_dinov2-s-frozen_simple-fpn_1x_coco.py']

model = dict(backbone=dict(frozen_stages=-1, drop_path_rate=0.1))
optim_wrapper = dict(
    constructor='mmpretrain.LearningRateDecayOptimWrapperConstructor',
    paramwise_cfg=dict(_delete_=True, layer_decay_rate=0.7, norm_decay_mult=0.0, bias_decay_mult=0.0))
