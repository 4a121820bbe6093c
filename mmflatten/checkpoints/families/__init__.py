"""Key tables, one file per family of backbones."""
from mmflatten.checkpoints.families.flatten_cswin import FLATTEN_CSWIN
from mmflatten.checkpoints.families.flatten_pvt import FLATTEN_PVT, FLATTEN_PVT_V2
from mmflatten.checkpoints.families.flatten_swin import FLATTEN_SWIN
from mmflatten.checkpoints.rules import Family

FAMILIES: dict[str, Family] = {family.name: family for family in (
    FLATTEN_CSWIN, FLATTEN_PVT, FLATTEN_PVT_V2, FLATTEN_SWIN)}

__all__ = ['FAMILIES']
