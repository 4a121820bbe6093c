"""What MMEngine lacks around training and testing: readable failures, safe checkpoints, guards.

Importing this package registers the hooks and the optimizer's constructor.
"""
from mmflatten.engine.checkpoint_hook import CheckpointHook
from mmflatten.engine.data_checks import CheckDataHook
from mmflatten.engine.finite_loss_hook import FiniteLossHook
from mmflatten.engine.layer_decay import LayerDecayOptimWrapperConstructor
from mmflatten.engine.logger_hook import LoggerHook
from mmflatten.engine.sample_errors import NameFailingSamplesHook
from mmflatten.engine.stereo_visualization_hook import StereoVisualizationHook

__all__ = ['CheckDataHook', 'CheckpointHook', 'FiniteLossHook', 'LayerDecayOptimWrapperConstructor',
           'LoggerHook', 'NameFailingSamplesHook', 'StereoVisualizationHook']
