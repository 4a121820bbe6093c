"""UperNet with Focal-T on ADE20K, 160 000 iterations.

Focal Transformer, Table 12: 45.8 mIoU, 47.0 with --tta, 62 M and 998 G FLOPs at 2048 x 512. Not run by this project.
Recipe: appendix A.2 gives the iterations and 16 images; the rest, drop path included, is Swin's. The authors' code for
segmentation is not published. Focal regions as in detection, since the paper gives none.
"""
_base_ = [
    '../_base_/models/upernet.py', '../_base_/datasets/ade20k_512x512.py', '../_base_/schedules/ade20k_160k_focal.py',
    '../_base_/default_runtime.py'
]
# Yours to give: a checkpoint of focal-t_8xb128_in1k.py, or an official one after tools/convert_checkpoint.py.
# Elsewhere: --cfg-options model.backbone.init_cfg.checkpoint=PATH. From random weights: model.backbone.init_cfg=None.
pretrained = 'checkpoints/focal-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FocalTransformer',
        arch='tiny',
        focal_windows=(15, 13, 9, 7),
        expand_everywhere=True,
        neighbor_boundary='mask',
        drop_path_rate=0.3,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.')),
    decode_head=dict(in_channels=[96, 192, 384, 768]),
    auxiliary_head=dict(in_channels=384))
