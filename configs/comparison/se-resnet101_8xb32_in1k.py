"""SE-ResNet-101 on ImageNet-1k.

Focal Transformer, Table 9: 78.4 % top-1, 49.3 M parameters, 15.6 G FLOPs. Not run by this project.
Model: mmpretrain's. Recipe: torchvision's for residual networks.
"""

_base_ = ['../_base_/recipes/resnet_90e_in1k.py']

model = dict(backbone=dict(type='SEResNet', depth=101))
