"""Metric of semantic segmentation, on mmseg."""

from mmseg.evaluation import IoUMetric as _IoUMetric

from mmflatten.registry import METRICS


@METRICS.register_module()
class IoUMetric(_IoUMetric):
    """mmseg's metric, under the same names: `mIoU`, `mAcc` and `aAcc`.

    MMEngine warns about a metric without a prefix. The empty prefix is a choice, and keeps the
    names.
    """

    default_prefix = ''
