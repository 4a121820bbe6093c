"""DeiT-T with SimA, linear attention whose queries and keys are divided by their L1 norms.

L2ViT, Tables 1 ("L1 norm") and 8: 68.6 % top-1, 5.7 M parameters, 1.3 G FLOPs. Not run by this project.
"""
_base_ = ['./l2vit-deit-t-softmax_8xb128_in1k.py']

model = dict(backbone=dict(attn_types='L', linear_attention=dict(type='SimAAttention')))
