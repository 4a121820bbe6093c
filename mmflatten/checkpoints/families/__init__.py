"""Key tables, one file for each group of model families."""
from mmflatten.checkpoints.families import (
    agent,
    biformer,
    deit,
    efficient_attention,
    flatten_cswin,
    flatten_pvt,
    flatten_swin,
    focal,
    l2vit,
    mhla,
    mila,
    polaformer,
    psmnet,
    ravlt,
    slab,
    vit,
)
from mmflatten.checkpoints.key_tables import Family

FAMILIES: dict[str, Family] = dict(sorted(
    (table.name, table) for file in (agent, biformer, deit, efficient_attention, flatten_cswin, flatten_pvt,
                                     flatten_swin, focal, l2vit, mhla, mila, polaformer, psmnet, ravlt, slab, vit)
    for table in vars(file).values() if isinstance(table, Family)))

__all__ = ['FAMILIES']
