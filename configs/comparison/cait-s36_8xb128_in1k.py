"""CaiT-S36 on ImageNet-1k.

Focal Transformer, Table 9: 83.3 % top-1, 68.0 M parameters, 13.9 G FLOPs. Not run by this project.
Model: timm's (`pip install timm`). Recipe: Swin's, where the authors' own differs.
"""

_base_ = ['../_base_/recipes/timm_300e_in1k.py']

model = dict(model_name='cait_s36_384', img_size=224, drop_path_rate=0.2)
