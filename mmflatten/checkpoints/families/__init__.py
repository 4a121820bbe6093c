"""Key tables, one file per model family."""
from mmflatten.checkpoints.families.deit import DEIT
from mmflatten.checkpoints.families.efficient_attention import EFFICIENT_ATTENTION
from mmflatten.checkpoints.families.flatten_cswin import FLATTEN_CSWIN
from mmflatten.checkpoints.families.flatten_pvt import FLATTEN_PVT, FLATTEN_PVT_V2, PVT, TIMM_PVT_V2
from mmflatten.checkpoints.families.flatten_swin import FLATTEN_SWIN, TIMM_SWIN
from mmflatten.checkpoints.families.focal import FOCAL
from mmflatten.checkpoints.families.l2vit import L2VIT
from mmflatten.checkpoints.families.psmnet import PSMNET, PSMNET_BASIC
from mmflatten.checkpoints.rules import Family

FAMILIES: dict[str, Family] = {family.name: family for family in (
    DEIT, EFFICIENT_ATTENTION, FLATTEN_CSWIN, FLATTEN_PVT, FLATTEN_PVT_V2, FLATTEN_SWIN, FOCAL, L2VIT, PSMNET,
    PSMNET_BASIC, PVT, TIMM_PVT_V2, TIMM_SWIN)}

__all__ = ['FAMILIES']
