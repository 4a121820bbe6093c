"""Conversion between official and mmflatten checkpoints by strict key tables."""
from mmflatten.checkpoints.convert import convert_state_dict, revert_state_dict
from mmflatten.checkpoints.families import FAMILIES

__all__ = ['FAMILIES', 'convert_state_dict', 'revert_state_dict']
