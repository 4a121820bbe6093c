"""Data structures for tasks that OpenMMLab libraries do not cover."""

from mmflatten.structures.stereo_data_sample import StereoDataSample

__all__ = ['StereoDataSample']
