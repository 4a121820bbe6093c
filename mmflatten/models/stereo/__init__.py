"""Stereo matching: PSMNet and its data preprocessor."""

from mmflatten.models.stereo.data_preprocessor import StereoDataPreProcessor
from mmflatten.models.stereo.psmnet import PSMNet

__all__ = ['PSMNet', 'StereoDataPreProcessor']
