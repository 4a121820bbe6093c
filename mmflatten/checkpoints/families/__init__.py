"""Key tables, one file for each group of model families."""
from mmflatten.checkpoints.families.agent import (
    AGENT_CSWIN,
    AGENT_DEIT,
    AGENT_PVT,
    AGENT_SWIN,
    INLINE_CSWIN,
    INLINE_DEIT,
    INLINE_PVT,
    INLINE_SWIN,
)
from mmflatten.checkpoints.families.biformer import BIFORMER_STL
from mmflatten.checkpoints.families.deit import DEIT
from mmflatten.checkpoints.families.efficient_attention import EFFICIENT_ATTENTION
from mmflatten.checkpoints.families.flatten_cswin import FLATTEN_CSWIN
from mmflatten.checkpoints.families.flatten_pvt import FLATTEN_PVT, FLATTEN_PVT_V2, PVT, TIMM_PVT_V2
from mmflatten.checkpoints.families.flatten_swin import FLATTEN_SWIN, TIMM_SWIN
from mmflatten.checkpoints.families.focal import FOCAL
from mmflatten.checkpoints.families.l2vit import L2VIT
from mmflatten.checkpoints.families.mhla import MHLA_DEIT
from mmflatten.checkpoints.families.mila import CIRCULANT_DEIT, H_VITTT, MILA, VITTT
from mmflatten.checkpoints.families.polaformer import POLAFORMER_PVT, POLAFORMER_SWIN
from mmflatten.checkpoints.families.psmnet import PSMNET, PSMNET_BASIC
from mmflatten.checkpoints.families.ravlt import MALA, NALAFORMER, POLAFORMERPP, RALA
from mmflatten.checkpoints.families.slab import SLAB_CSWIN, SLAB_DEIT, SLAB_PVT, SLAB_SWIN
from mmflatten.checkpoints.key_tables import Family

FAMILIES: dict[str, Family] = {family.name: family for family in (
    AGENT_CSWIN, AGENT_DEIT, AGENT_PVT, AGENT_SWIN, BIFORMER_STL, CIRCULANT_DEIT, DEIT, EFFICIENT_ATTENTION,
    FLATTEN_CSWIN, FLATTEN_PVT, FLATTEN_PVT_V2, FLATTEN_SWIN, FOCAL, H_VITTT, INLINE_CSWIN, INLINE_DEIT, INLINE_PVT,
    INLINE_SWIN, L2VIT, MALA, MHLA_DEIT, MILA, NALAFORMER, POLAFORMERPP, POLAFORMER_PVT, POLAFORMER_SWIN, PSMNET,
    PSMNET_BASIC, PVT, RALA, SLAB_CSWIN, SLAB_DEIT, SLAB_PVT, SLAB_SWIN, TIMM_PVT_V2, TIMM_SWIN, VITTT)}

__all__ = ['FAMILIES']
