"""SE-ResNet-152 on ImageNet-1k.

Focal Transformer, Table 9: 78.9 % top-1, 66.8 M parameters, 23.1 G FLOPs. Not run by this project.
Model: mmpretrain's. Recipe: torchvision's for residual networks.
"""

_base_ = ['../_base_/recipes/resnet_90e_in1k.py']

model = dict(backbone=dict(type='SEResNet', depth=152))
