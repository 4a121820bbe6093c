"""Metrics for tasks that OpenMMLab libraries do not cover."""

from mmflatten.evaluation.stereo import StereoMetric

__all__ = ['StereoMetric']
