"""Drawings that the OpenMMLab libraries lack."""
from mmflatten.visualization.stereo import StereoVisualizer

__all__ = ['StereoVisualizer']
