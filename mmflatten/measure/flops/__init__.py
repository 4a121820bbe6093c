"""Parameters and multiply-accumulates of models, without data, weights or a GPU."""

from mmflatten.measure.flops.counter import OperationCounter, OperationCounts, count_operations

__all__ = ['OperationCounter', 'OperationCounts', 'count_operations']
