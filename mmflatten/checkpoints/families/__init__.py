"""Key tables, one file for each group of model families."""

from importlib import import_module
from pkgutil import iter_modules

from mmflatten.checkpoints.key_tables import Family

FAMILIES: dict[str, Family] = dict(
    sorted(
        (table.name, table)
        for file in iter_modules(__path__, f'{__name__}.')
        for table in vars(import_module(file.name)).values()
        if isinstance(table, Family)
    )
)

__all__ = ['FAMILIES']
