"""RetinaNet with L2ViT-S on COCO, 36 epochs.

No paper reports it; the authors' code has its config. Not run by this project. Trained like
L2ViT-T.
"""

_base_ = ['./retinanet_l2vit-t_fpn_ms-3x_coco.py']

# A checkpoint of l2vit-s_32xb128_in1k.py, or the official one after tools/convert_checkpoint.py.
pretrained = 'checkpoints/l2vit-s_in1k.pth'
model = dict(backbone=dict(arch='small', init_cfg=dict(checkpoint=pretrained)))
