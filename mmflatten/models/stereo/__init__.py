"""Stereo depth: PSMNet and its parts."""
from mmflatten.models.stereo.data_preprocessor import StereoDataPreProcessor

__all__ = ['StereoDataPreProcessor']
