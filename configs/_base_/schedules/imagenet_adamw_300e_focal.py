"""ImageNet, 300 epochs of AdamW for a total batch of 1024: Focal Transformer, official `config.py`.

Swin's recipe. The biases of focal attention's keys outside of the window get no weight decay either; the pooling does.
"""
_base_ = ['./imagenet_adamw_300e.py']

optim_wrapper = dict(
    paramwise_cfg=dict(custom_keys={
        'neighbor_bias': dict(decay_mult=0.0),
        'pooled_bias': dict(decay_mult=0.0),
    }))
