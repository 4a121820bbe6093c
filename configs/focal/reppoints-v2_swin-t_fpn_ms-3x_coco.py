"""RepPoints V2 with Swin-T on COCO, 36 epochs, the baseline of Focal-T.

Focal Transformer, Table 5: 50.0 box AP, 44.1 M and 437 G FLOPs. Not run by this project. Recipe as with Focal-T.
"""
_base_ = ['./reppoints-v2_focal-t_fpn_ms-3x_coco.py']

pretrained = 'checkpoints/swin-t_in1k.pth'  # yours to give, as there
model = dict(
    backbone=dict(
        _delete_=True,
        type='mmflatten.FLattenSwin',
        arch='tiny',
        attn_types='SSSS',
        drop_path_rate=0.2,
        out_indices=(1, 2, 3),
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.')))
