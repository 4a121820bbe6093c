"""SHViT-S4 on ImageNet-1k.

L2ViT, Table 2: 82.0 % top-1, 16.5 M parameters, 4.0 G FLOPs. Not run by this project.
Model: timm's (`pip install timm`). Recipe: Swin's, where the authors' own differs. It trains
at 224; the FLOPs are those at 512.
"""

_base_ = ['../_base_/recipes/timm_300e_in1k.py']

model = dict(model_name='shvit_s4')
