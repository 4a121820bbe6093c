"""Checkpoints: safe reading, atomic writing, and conversion between official and our names by
strict key tables.
"""

from mmflatten.checkpoints.convert import convert_state_dict, revert_state_dict
from mmflatten.checkpoints.families import FAMILIES

__all__ = ['FAMILIES', 'convert_state_dict', 'revert_state_dict']
