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
DATASETS = _child(_mmengine.DATASETS, 'mmflatten.datasets.stereo', 'mmflatten.datasets.detection',
                  'mmflatten.datasets.classification')
TRANSFORMS = _child(_mmengine.TRANSFORMS, 'mmflatten.datasets.stereo')
METRICS = _child(_mmengine.METRICS, 'mmflatten.evaluation')
VISUALIZERS = _child(_mmengine.VISUALIZERS, 'mmflatten.datasets.stereo.visualizer')
VISBACKENDS = _child(_mmengine.VISBACKENDS, 'mmflatten.engine.tracking')
HOOKS = _child(_mmengine.HOOKS, 'mmflatten.engine.hooks')
OPTIM_WRAPPERS = _child(_mmengine.OPTIM_WRAPPERS, 'mmflatten.engine.cpu_amp')
OPTIM_WRAPPER_CONSTRUCTORS = _child(_mmengine.OPTIM_WRAPPER_CONSTRUCTORS,
                                    'mmflatten.engine.layer_decay')
RUNNERS = _child(_mmengine.RUNNERS, 'mmflatten.engine.runner')

# Nothing of ours is in these. A stereo config's default scope is `mmflatten`, and MMEngine warns at every build whose
# registry has no child of that scope.
for _parent in (_mmengine.DATA_SAMPLERS, _mmengine.EVALUATOR, _mmengine.LOG_PROCESSORS,
                _mmengine.LOOPS, _mmengine.MODEL_WRAPPERS, _mmengine.OPTIMIZERS, _mmengine.PARAM_SCHEDULERS,
                _mmengine.WEIGHT_INITIALIZERS):
    _child(_parent)
