"""Key tables, one file for each group of model families."""

from importlib import import_module
from pkgutil import iter_modules

from mmflatten.checkpoints.key_tables import Family


def _named_tables() -> list[tuple[str, Family]]:
    """Return the name and table of each family in the modules of this package."""
    found = []
    for file in iter_modules(__path__, f'{__name__}.'):
        for table in vars(import_module(file.name)).values():
            if isinstance(table, Family):
                found.append((table.name, table))
    return found


FAMILIES: dict[str, Family] = dict(sorted(_named_tables()))

__all__ = ['FAMILIES']
