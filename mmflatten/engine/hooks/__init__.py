"""Hooks of a run."""
from mmflatten.engine.hooks.checkpoint import CheckpointHook
from mmflatten.engine.hooks.data_checks import CheckDataHook
from mmflatten.engine.hooks.finite_loss import FiniteLossHook
from mmflatten.engine.hooks.logger import LoggerHook
from mmflatten.engine.hooks.mesa import MesaEMAHook
from mmflatten.engine.hooks.validation_drawings import DrawValidationHook

__all__ = ['CheckDataHook', 'CheckpointHook', 'DrawValidationHook', 'FiniteLossHook', 'LoggerHook', 'MesaEMAHook']
