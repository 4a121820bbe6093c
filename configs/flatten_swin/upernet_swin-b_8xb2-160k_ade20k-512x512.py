"""UperNet with Swin-B on ADE20K, 160 000 iterations.

Focal Transformer, Table 12, and L2ViT, Table 5 (from Swin's code): 48.1 mIoU, 121 M parameters,
1188 G FLOPs at 2048 x 512; with --tta 49.7 (Focal Transformer). Not run by this project. Recipe:
Swin's.
"""

_base_ = ['../_base_/recipes/upernet_160k_ade20k-512x512.py']

# A checkpoint of swin-b_8xb64_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/swin-b_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenSwin',
        arch='base',
        attn_types='SSSS',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    decode_head=dict(in_channels=[128, 256, 512, 1024]),
    auxiliary_head=dict(in_channels=512),
)
