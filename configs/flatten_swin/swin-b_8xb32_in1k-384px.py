"""Swin-B on ImageNet-1k at 384 x 384, the baseline of FLatten-Swin-B at that size.

FLatten Transformer, Table 8 (from Swin's paper): 84.5 % top-1, 88 M parameters, 47.0 G FLOPs. Not run by this project.
Fine-tuned as FLatten-Swin-B, from a checkpoint of swin-b_8xb64_in1k.py or a converted official one.
"""
_base_ = ['./flatten-swin-b_8xb32_in1k-384px.py']

load_from = 'checkpoints/swin-b_in1k.pth'

model = dict(backbone=dict(attn_types='SSSS'))
