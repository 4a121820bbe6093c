"""ADE20K, 160 000 iterations of AdamW with Focal Transformer: Swin's recipe, as the paper says (appendix A.2).

Focal attention's biases of keys outside of the window get no weight decay, as Swin's position tables.
"""
_base_ = ['./ade20k_160k.py']

optim_wrapper = dict(
    paramwise_cfg=dict(custom_keys={
        'neighbor_bias': dict(decay_mult=0.0),
        'pooled_bias': dict(decay_mult=0.0),
    }))
