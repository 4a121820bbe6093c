"""CSwin-B on ImageNet-1k at 384 x 384, the baseline of FLatten-CSwin-B at that size.

FLatten Transformer, Table 8 (from CSwin's paper): 85.4 % top-1, 78 M parameters, 47.0 G FLOPs. Not run by this
project. Fine-tuned and evaluated as FLatten-CSwin-B, from a checkpoint of cswin-b_8xb64_in1k.py.
"""
_base_ = ['./flatten-cswin-b_8xb32_in1k-384px.py']

load_from = 'checkpoints/cswin-b_in1k.pth'

model = dict(
    backbone=dict(
        arch=dict(_delete_=True, embed_dims=96, depths=(2, 4, 32, 2), num_heads=(4, 8, 16, 32)), attn_types='SSSS'))
