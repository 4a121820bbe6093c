"""RetinaNet with FLatten-CSwin-T on COCO, 12 epochs.

No paper reports it. Not run by this project. Trained like FLatten-Swin-T, by the recipe of the same
lab's Agent-Attention with Swin; single-scale training, as usual in RetinaNet's 1x schedule.
"""

_base_ = ['../_base_/recipes/retinanet_1x_coco.py']

# A checkpoint of flatten-cswin-t_8xb256_in1k.py, or the official one after
# tools/convert_checkpoint.py.
pretrained = 'checkpoints/flatten-cswin-t_in1k.pth'
model = dict(
    backbone=dict(
        type='mmflatten.FLattenCSwin',
        arch='tiny',
        attn_types='LLSS',
        drop_path_rate=0.1,
        init_cfg=dict(type='Pretrained', checkpoint=pretrained, prefix='backbone.'),
    ),
    neck=dict(in_channels=[128, 256, 512]),
)
