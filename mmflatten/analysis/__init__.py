"""The library half of `tools/analysis`: what a model costs, and what the papers say it costs."""
from mmflatten.analysis.complexity import OperationCounter, OperationCounts, count_operations

__all__ = ['OperationCounter', 'OperationCounts', 'count_operations']
