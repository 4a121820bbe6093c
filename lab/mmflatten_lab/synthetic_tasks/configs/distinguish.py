"""Distinguish: queries of one direction and four lengths, and an attention without a block around it.

Run by this project in studies alone: lab/docs/fingerprint.md.
"""
_base_ = './base.py'
model = dict(
    backbone=dict(
        _delete_=True,
        type='mmflatten.MixerAlone',
        linear_attention=dict(type='SoftmaxAttention'),
        embed_dims=64,
        num_heads=2,
        img_size=64,
        patch_size=8))
train_dataloader = val_dataloader = test_dataloader = dict(dataset=dict(ability='distinguish'))
