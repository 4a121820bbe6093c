"""Registries of mmflatten: children of MMEngine's, under the scope `mmflatten`.

`type='mmflatten.FLattenSwin'` resolves from any library's default scope: MMEngine imports this module for the scope
and then the `locations`, so a config needs no `custom_imports`.
"""
from mmengine import registry as _mmengine
from mmengine.registry import Registry

SCOPE = 'mmflatten'


def _child(parent: Registry, *locations: str) -> Registry:
    return Registry(parent.name, parent=parent, scope=SCOPE, locations=list(locations))


MODELS = _child(_mmengine.MODELS, 'mmflatten.models')
DATASETS = _child(_mmengine.DATASETS, 'mmflatten.datasets.stereo')
TRANSFORMS = _child(_mmengine.TRANSFORMS, 'mmflatten.datasets.stereo')
METRICS = _child(_mmengine.METRICS, 'mmflatten.evaluation')
VISUALIZERS = _child(_mmengine.VISUALIZERS, 'mmflatten.visualization')
HOOKS = _child(_mmengine.HOOKS, 'mmflatten.engine')
OPTIM_WRAPPERS = _child(_mmengine.OPTIM_WRAPPERS, 'mmflatten.engine')
OPTIM_WRAPPER_CONSTRUCTORS = _child(_mmengine.OPTIM_WRAPPER_CONSTRUCTORS, 'mmflatten.engine')
LOOPS = _child(_mmengine.LOOPS, 'mmflatten.engine')
RUNNERS = _child(_mmengine.RUNNERS, 'mmflatten.engine')

# Nothing of ours is in these; with them, a stereo config's default scope finds what MMEngine registers.
DATA_SAMPLERS = _child(_mmengine.DATA_SAMPLERS)
EVALUATOR = _child(_mmengine.EVALUATOR)
FUNCTIONS = _child(_mmengine.FUNCTIONS)
LOG_PROCESSORS = _child(_mmengine.LOG_PROCESSORS)
MODEL_WRAPPERS = _child(_mmengine.MODEL_WRAPPERS)
OPTIMIZERS = _child(_mmengine.OPTIMIZERS)
PARAM_SCHEDULERS = _child(_mmengine.PARAM_SCHEDULERS)
VISBACKENDS = _child(_mmengine.VISBACKENDS)
WEIGHT_INITIALIZERS = _child(_mmengine.WEIGHT_INITIALIZERS)
