"""Data structures of the tasks that the OpenMMLab libraries lack."""
from mmflatten.structures.stereo_data_sample import StereoDataSample

__all__ = ['StereoDataSample']
