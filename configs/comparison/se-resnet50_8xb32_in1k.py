"""SE-ResNet-50 on ImageNet-1k.

Focal Transformer, Table 9: 77.5 % top-1, 28.1 M parameters, 8.2 G FLOPs. Not run by this project.
Model: mmpretrain's.
Recipe: torchvision's for residual networks.
"""

_base_ = ['../_base_/recipes/resnet_90e_in1k.py']

model = dict(backbone=dict(type='SEResNet', depth=50))
