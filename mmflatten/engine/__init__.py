"""What MMEngine lacks around training and testing: readable failures, safe checkpoints, guards.

Importing this package registers the Runner, its hooks and the optimizer's constructor.
"""
from mmflatten.engine import hooks  # noqa: F401
from mmflatten.engine.layer_decay import LayerDecayOptimWrapperConstructor
from mmflatten.engine.runner import Runner

__all__ = ['LayerDecayOptimWrapperConstructor', 'Runner']
