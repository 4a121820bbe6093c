"""COCO, 12 epochs of AdamW with Focal Transformer: AdamW 1e-4, weight decay 0.05 (sec. 4.2); the rest is Swin's.

Focal attention's biases of keys outside of the window get no weight decay, as Swin's position tables.
"""
_base_ = ['./coco_1x.py']

optim_wrapper = dict(
    paramwise_cfg=dict(custom_keys={
        'neighbor_bias': dict(decay_mult=0.0),
        'pooled_bias': dict(decay_mult=0.0),
    }))
