"""CrossViT-S on ImageNet-1k.

Focal Transformer, Table 9: 81.0 % top-1, 26.7 M parameters, 5.6 G FLOPs. Not run by this project.
Model: timm's (`pip install timm`), which requires images of 240 x 240. Recipe: Swin's, where the
authors' own differs.
"""

_base_ = ['../_base_/recipes/timm_300e_in1k-240px.py']

model = dict(model_name='crossvit_small_240', drop_path_rate=0.1)
