"""CoAtNet-1 on ImageNet-1k.

L2ViT, Table 2: 83.3 % top-1, 42 M parameters, 8.4 G FLOPs. Not run by this project.
Model: timm's (`pip install timm`), with the stride in the first convolution of a block as in
CoAtNet's paper. Recipe: Swin's, where the authors' own differs.
"""

_base_ = ['../_base_/recipes/timm_300e_in1k.py']

model = dict(model_name='coatnet_1_224', conv_stride_mode='1x1', drop_path_rate=0.3)
