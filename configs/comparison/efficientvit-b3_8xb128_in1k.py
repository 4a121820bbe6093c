"""EfficientViT-B3 on ImageNet-1k.

L2ViT, Table 2: 83.5 % top-1, 49 M parameters. Not run by this project.
Model: timm's (`pip install timm`). Recipe: Swin's, where the authors' own differs.
"""

_base_ = ['../_base_/recipes/timm_300e_in1k.py']

model = dict(model_name='efficientvit_b3')
