"""Factorized attention and its conventional twin on maps and volumes."""
from mmflatten.models.factorized.attention import ConventionalAttention, FactorizedAttention, MapAttention

__all__ = ['ConventionalAttention', 'FactorizedAttention', 'MapAttention']
