"""Backbones, one file per family."""

from mmflatten.models.backbones.biformer import BiFormerSTL
from mmflatten.models.backbones.flatten_cswin import FLattenCSwin
from mmflatten.models.backbones.flatten_deit import FLattenDeiT
from mmflatten.models.backbones.flatten_pvt import FLattenPVT, FLattenPVTv2
from mmflatten.models.backbones.flatten_swin import FLattenSwin
from mmflatten.models.backbones.focal import FocalTransformer
from mmflatten.models.backbones.l2vit import L2ViT
from mmflatten.models.backbones.mlla import MLLA, HViTTT
from mmflatten.models.backbones.ravlt import RAVLT
from mmflatten.models.backbones.vit import ViT

__all__ = [
    'BiFormerSTL',
    'FLattenCSwin',
    'FLattenDeiT',
    'FLattenPVT',
    'FLattenPVTv2',
    'FLattenSwin',
    'FocalTransformer',
    'HViTTT',
    'L2ViT',
    'MLLA',
    'RAVLT',
    'ViT',
]
