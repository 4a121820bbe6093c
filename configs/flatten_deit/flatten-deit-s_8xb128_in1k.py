"""FLatten-DeiT-S on ImageNet-1k, to start detectors and segmentors from.

No paper reports it. Not run by this project. Trained like FLatten-DeiT-T.
"""

_base_ = ['../_base_/recipes/deit_300e_in1k.py']

model = dict(
    backbone=dict(
        type='mmflatten.FLattenDeiT', arch='small', attn_types='L', img_size=224, drop_path_rate=0.1
    ),
    head=dict(in_channels=384),
)
