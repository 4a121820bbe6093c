"""CrossViT-B on ImageNet-1k.

Focal Transformer, Table 9: 82.2 % top-1, 104.7 M parameters, 21.2 G FLOPs. Not run by this project.
Model: timm's (`pip install timm`), which requires images of 240 x 240. Recipe: Swin's, where the
authors' own differs.
"""

_base_ = ['../_base_/recipes/timm_300e_in1k-240px.py']

model = dict(model_name='crossvit_base_240', drop_path_rate=0.3)
