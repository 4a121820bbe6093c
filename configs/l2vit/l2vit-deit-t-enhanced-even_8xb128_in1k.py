"""DeiT-T with the enhanced linear attention of L2ViT in every second block.

L2ViT, Table 11: 72.8 % top-1 (72.2 without), 5.7 M parameters, 1.3 G FLOPs. Not run by this project.
"""
_base_ = ['./l2vit-deit-t-enhanced_8xb128_in1k.py']

# Softmax stays in the blocks 1, 3, 5, 7, 9 and 11.
model = dict(backbone=dict(attn_types='SLSLSLSLSLSL'))
