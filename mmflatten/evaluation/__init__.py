"""Metrics that the OpenMMLab libraries lack."""
from mmflatten.evaluation.stereo import StereoMetric

__all__ = ['StereoMetric']
