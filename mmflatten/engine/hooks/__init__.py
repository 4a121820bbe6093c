"""Hooks of a run."""

from mmflatten.engine.hooks.checkpoint import CheckpointHook
from mmflatten.engine.hooks.data_checks import CheckDataHook
from mmflatten.engine.hooks.training import (
    CompileHook,
    FiniteLossHook,
    LoggerHook,
    MesaEMAHook,
    RuntimeInfoHook,
)
from mmflatten.engine.predictions import DrawValidationHook

__all__ = [
    'CheckDataHook',
    'CheckpointHook',
    'CompileHook',
    'DrawValidationHook',
    'FiniteLossHook',
    'LoggerHook',
    'MesaEMAHook',
    'RuntimeInfoHook',
]
