"""Registries of mmflatten: children of MMEngine's, under the scope `mmflatten`.

`type='mmflatten.FLattenSwin'` resolves from any library's default scope: MMEngine imports this
module for the scope and then the `locations`, so a config needs no `custom_imports`.
"""

import logging
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points

from mmengine import registry as _mmengine
from mmengine.registry import Registry

from mmflatten.deprecation import current_name
from mmflatten.requirements import MIXERS

SCOPE = 'mmflatten'


class LazyRegistry(Registry):
    """A registry of mmflatten with classes whose modules are imported on first use.

    Importing mmdet or mmpretrain takes seconds, and neither has to be installed for other tasks. As
    in MMEngine, `len` and `module_dict` cover only the classes imported so far; `get` and `in`
    cover all of them.

    Args:
        parent: registry of MMEngine.
        locations: modules imported on the first `get`.
        on_demand: class name -> module that registers the class, imported when the class is
            requested.
        group: entry points of installed packages, loaded after `locations`. Their names are those
            of the classes in configs. One that fails is left out, with a warning.
    """

    def __init__(
        self,
        parent: Registry,
        *locations: str,
        on_demand: Mapping[str, str] | None = None,
        group: str | None = None,
    ) -> None:
        super().__init__(parent.name, parent=parent, scope=SCOPE, locations=list(locations))
        self.on_demand = dict(on_demand or {})
        self.group = group

    def get(self, key: str) -> type | None:
        name = key.removeprefix(f'{SCOPE}.')
        current = current_name('class', name)
        module = self.on_demand.get(current)
        if module is not None:
            import_module(module)
        return super().get(key if current == name else current)

    def import_from_location(self) -> None:
        first = not self._imported
        super().import_from_location()
        if not first or self.group is None:
            return
        for entry in entry_points(group=self.group):
            try:
                found = entry.load()
                # The package may have registered it itself.
                if self.module_dict.get(entry.name) is not found:
                    self.register_module(name=entry.name, module=found)
            except Exception as error:  # the code of another package may raise anything
                package = f'{entry.dist.name} {entry.dist.version}' if entry.dist else entry.value
                logging.getLogger('mmflatten').warning(
                    '%s: %s cannot be loaded (%s: %s). Update the package or uninstall it.',
                    package,
                    entry.name,
                    type(error).__name__,
                    ' '.join(str(error).split()),
                )


MODELS = LazyRegistry(
    _mmengine.MODELS,
    'mmflatten.models',
    group=MIXERS,
    on_demand={
        'ATSSHead': 'mmflatten.models.detection.atss_head',
        'AttentionFPN': 'mmflatten.models.detection.attention_fpn',
        'AttentionResNeXt': 'mmflatten.models.detection.attention_resnet',
        'AttentionResNet': 'mmflatten.models.detection.attention_resnet',
        'BiFPN': 'mmflatten.models.detection.bifpn',
        'EncoderMaskDetector': 'mmflatten.models.mask_head.head',
        'EncoderMaskHead': 'mmflatten.models.mask_head.head',
        'EncoderMaskSegHead': 'mmflatten.models.mask_head.segmentation',
        'EncoderMaskSegmentor': 'mmflatten.models.mask_head.segmentation',
        'FileModel': 'mmflatten.runtime.model',
        'RepPointsV2Head': 'mmflatten.models.detection.reppoints_v2_head',
    },
)
DATASETS = LazyRegistry(
    _mmengine.DATASETS,
    'mmflatten.datasets.stereo',
    on_demand={
        'CheckedCocoDataset': 'mmflatten.datasets.checked_coco',
        'IndexedImageNet': 'mmflatten.datasets.indexed_images',
        'IndexedImages': 'mmflatten.datasets.indexed_images',
        'PanopticDataset': 'mmflatten.datasets.panoptic',
    },
)
# Empty: without it, MMEngine would warn in our scope.
DATA_SAMPLERS = LazyRegistry(_mmengine.DATA_SAMPLERS)
TRANSFORMS = LazyRegistry(
    _mmengine.TRANSFORMS,
    'mmflatten.datasets.stereo',
    on_demand={
        'LoadBands': 'mmflatten.datasets.bands',
        'LoadPanopticAnnotations': 'mmflatten.datasets.panoptic',
    },
)
METRICS = LazyRegistry(
    _mmengine.METRICS,
    'mmflatten.evaluation',
    on_demand={
        'IoUMetric': 'mmflatten.evaluation.segmentation',
        'PanopticMetric': 'mmflatten.evaluation.panoptic',
    },
)
VISUALIZERS = LazyRegistry(_mmengine.VISUALIZERS, 'mmflatten.datasets.stereo.visualizer')
HOOKS = LazyRegistry(_mmengine.HOOKS, 'mmflatten.engine.hooks')
OPTIM_WRAPPERS = LazyRegistry(_mmengine.OPTIM_WRAPPERS, 'mmflatten.engine.optim')
OPTIM_WRAPPER_CONSTRUCTORS = LazyRegistry(
    _mmengine.OPTIM_WRAPPER_CONSTRUCTORS, 'mmflatten.engine.optim'
)
RUNNERS = LazyRegistry(_mmengine.RUNNERS, 'mmflatten.engine.runner')

# Empty, but a stereo config's default scope is `mmflatten`, and MMEngine warns whenever it builds
# from a registry without a child of the default scope.
for _parent in (
    _mmengine.EVALUATOR,
    _mmengine.FUNCTIONS,
    _mmengine.LOG_PROCESSORS,
    _mmengine.LOOPS,
    _mmengine.MODEL_WRAPPERS,
    _mmengine.OPTIMIZERS,
    _mmengine.PARAM_SCHEDULERS,
    _mmengine.VISBACKENDS,
    _mmengine.WEIGHT_INITIALIZERS,
):
    LazyRegistry(_parent)
