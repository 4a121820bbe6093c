"""Backbones: a file per family."""
from mmflatten.models.backbones.flatten_swin import FLattenSwin

__all__ = ['FLattenSwin']
