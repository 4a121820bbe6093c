"""ResNet-101 on ImageNet-1k.

Focal Transformer, Tables 2 and 9: 77.4 % top-1, 45.0 M parameters, 7.9 G FLOPs. Not run by this
project. The accuracy is that of torchvision's weights; so is the recipe.
"""

_base_ = ['../_base_/recipes/resnet_90e_in1k.py']

model = dict(backbone=dict(type='mmflatten.AttentionResNet', depth=101))
