"""RepViT-M2.3 on ImageNet-1k.

L2ViT, Table 2: 82.5 % top-1, 23 M parameters, 4.5 G FLOPs. Not run by this project.
Model: timm's (`pip install timm`). Recipe: Swin's, where the authors' own differs.
"""

_base_ = ['../_base_/recipes/timm_300e_in1k.py']

model = dict(model_name='repvit_m2_3', distillation=False)
