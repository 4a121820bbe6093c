"""DeiT-T with efficient attention.

L2ViT, Table 8: 67.7 % top-1, 5.7 M parameters, 1.3 G FLOPs. Not run by this project.
"""
_base_ = ['./l2vit-deit-t-softmax_8xb128_in1k.py']

model = dict(backbone=dict(attn_types='L', linear_attention=dict(type='EfficientAttention')))
