"""Conversion of official checkpoints by strict tables of keys, both ways."""
from mmflatten.checkpoints.convert import convert_state_dict, revert_state_dict
from mmflatten.checkpoints.families import FAMILIES

__all__ = ['FAMILIES', 'convert_state_dict', 'revert_state_dict']
