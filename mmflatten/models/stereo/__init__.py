"""Stereo depth: PSMNet and its parts."""
from mmflatten.models.stereo.data_preprocessor import StereoDataPreProcessor
from mmflatten.models.stereo.psmnet import PSMNet

__all__ = ['PSMNet', 'StereoDataPreProcessor']
