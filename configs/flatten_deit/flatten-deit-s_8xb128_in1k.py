"""FLatten-DeiT-S on ImageNet-1k, to start detectors and segmentors from.

No paper reports it. Not run by this project. Recipe as for FLatten-DeiT-T.
"""
_base_ = ['./flatten-deit-t_8xb128_in1k.py']

model = dict(backbone=dict(arch='small'), head=dict(in_channels=384))
