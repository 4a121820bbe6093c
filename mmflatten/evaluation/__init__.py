"""Metrics that are missing in the OpenMMLab libraries."""
from mmflatten.evaluation.stereo import StereoMetric

__all__ = ['StereoMetric']
