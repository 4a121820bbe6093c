"""Pipeline and data preprocessor of a published model: built from numbers, and a config's as
numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mmflatten.engine.datasets import first_config
from mmflatten.registry import SCOPE
from mmflatten.untrusted.published import HubError, Input, arguments, checked

COLOURS = 'LoadImageFromFile'
BANDS = 'mmflatten.LoadBands'  # in place of the step that loads colours
PAIR = 'mmflatten.LoadStereoPair'  # which loads either
COLOUR_LOADERS = (COLOURS, PAIR.rpartition('.')[2])  # without scopes
# The transform of each part of `Input`, in the order of the pipeline.
_STEPS = {
    'resize': 'Resize',
    'resize_edge': 'ResizeEdge',
    'crop': 'CenterCrop',
    'multiple': 'ResizeToMultiple',
}


@dataclass(frozen=True)
class _Frame:
    """Classes around the transforms of a task's pipeline.

    Attributes:
        packed: arguments of the last transform.
    """

    packing: str
    preprocessor: str
    packed: Mapping[str, Any] = field(default_factory=dict)


_FRAMES = {  # by the scope of the task
    'mmpretrain': _Frame('PackInputs', 'ClsDataPreprocessor'),
    'mmdet': _Frame(
        packing='PackDetInputs',
        preprocessor='DetDataPreprocessor',
        packed=dict(meta_keys=('img_path', 'ori_shape', 'img_shape', 'scale_factor')),
    ),
    'mmseg': _Frame('PackSegInputs', 'SegDataPreProcessor'),
    'mmflatten': _Frame(
        packing='mmflatten.PackStereoInputs',
        preprocessor='mmflatten.StereoDataPreProcessor',
    ),
}
# Steps and arguments without effect on a prediction: ground truth, packed names and storage of
# files, options of a training.
_TRUTH = ('LoadAnnotations', 'mmflatten.LoadDisparity', 'mmflatten.LoadPanopticAnnotations')
_NAMES = ('meta_keys', 'algorithm_keys', 'backend_args', 'file_client_args')
_TRAINING = (
    'num_classes',
    'batch_augments',
    'pad_mask',
    'mask_pad_value',
    'pad_seg',
    'seg_pad_value',
    'size',
    'size_divisor',
    'pad_val',
    'seg_pad_val',
    'non_blocking',
)


def pipeline_of(numbers: Input, scope: str) -> list[dict[str, Any]]:
    """Build the test pipeline of a task's scope."""
    frame = _FRAMES[scope]
    bands = None if numbers.bands is None else arguments(numbers.bands)
    steps = [loading_step(scope, bands)]
    for name, transform in _STEPS.items():
        part = getattr(numbers, name)
        if part is not None:
            steps.append(dict(type=transform, **arguments(part)))
    steps.append(dict(type=frame.packing, **frame.packed))
    return steps


def preprocessor_of(numbers: Input, scope: str) -> dict[str, Any]:
    """Build the config of a task's data preprocessor."""
    return dict(type=_FRAMES[scope].preprocessor, **arguments(numbers.preprocessor))


def loading_step(scope: str, bands: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the first step of a task's pipeline.

    Args:
        bands: arguments of `LoadBands`, as `bands_of` returns them; None to read colours.
    """
    is_pair = scope == SCOPE
    if bands is None:
        return dict(type=PAIR if is_pair else COLOURS)
    if is_pair:
        return dict(type=PAIR, bands=bands.get('bands', 'all'))
    return dict(type=BANDS, **bands)


def bands_of(cfg: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how the bands of images are read, as arguments of `LoadBands`: those of the first step
    of a config's test pipeline. None if it reads colours.
    """
    steps = first_config(cfg['test_dataloader']['dataset']).get('pipeline') or ()
    if not steps:
        return None
    name = str(steps[0]['type']).rpartition('.')[2]
    values = {key: value for key, value in steps[0].items() if key != 'type' and value is not None}
    if name == PAIR.rpartition('.')[2]:
        chosen = values.pop('bands', None)
        if chosen is None:
            return None
        return {} if chosen == 'all' else dict(bands=chosen)
    return values if name == BANDS.rpartition('.')[2] else None


def input_of(cfg: Mapping[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """Return the numbers of a config's test pipeline and data preprocessor, as `config.json` holds
    them.

    Raises:
        HubError: `Input` has no field for a step, an argument or the data preprocessor.
    """
    scope = cfg['default_scope']
    if scope not in _FRAMES:
        raise HubError(
            f'{where}: default_scope: expected one of {", ".join(_FRAMES)}, got {scope}.'
        )
    numbers = _numbers_of_pipeline(cfg, scope, where)
    numbers['preprocessor'] = _numbers_of_preprocessor(cfg, scope, where)
    return arguments(checked(Input, numbers, f'{where}: input'))


def _numbers_of_pipeline(
    cfg: Mapping[str, Any], scope: str, where: str
) -> dict[str, dict[str, Any]]:
    dataset = first_config(cfg['test_dataloader']['dataset'])
    steps = []
    for step in dataset.get('pipeline') or ():
        name, values = _parts(step, scope, _NAMES)
        if name not in _TRUTH:
            steps.append((name, values))
    # The pipeline that `pipeline_of` would build from these numbers.
    given = dict(steps)
    frame = _FRAMES[scope]
    bands = bands_of(cfg)
    expected = [_parts(loading_step(scope, bands), scope, ())]
    numbers = {} if bands is None else dict(bands=bands)
    for name, transform in _STEPS.items():
        if transform in given:
            numbers[name] = given[transform]
            expected.append((transform, given[transform]))
    expected.append((frame.packing, {}))
    if steps != expected:
        loader = loading_step(scope, bands=None)['type']
        raise HubError(
            f'{where}: test_dataloader.dataset.pipeline: expected {loader}, at most'
            f' {", ".join(_STEPS.values())} once and in this order, and {frame.packing}, got'
            f' {_first_difference(steps, expected)}. Another pipeline cannot be published.'
        )
    return numbers


def _first_difference(steps: list[tuple], expected: list[tuple]) -> str:
    """Return the first step that differs from the expected one, as text."""
    for (name, values), ours in zip(steps, expected):
        if (name, values) != ours:
            return f'{name} {values or ""}'
    if len(steps) > len(expected):
        name, values = steps[len(expected)]
        return f'{name} {values or ""}'
    return 'the end'


def _numbers_of_preprocessor(cfg: Mapping[str, Any], scope: str, where: str) -> dict[str, Any]:
    expected = _FRAMES[scope].preprocessor
    preprocessor = cfg['model'].get('data_preprocessor') or cfg.get('data_preprocessor') or {}
    name, values = _parts({'type': expected, **preprocessor}, scope, _TRAINING)
    if name != expected:
        raise HubError(
            f'{where}: data_preprocessor.type: expected {expected}, got {name}. Another cannot be'
            ' published.'
        )
    return values


def _parts(
    step: Mapping[str, Any], scope: str, ignored: tuple[str, ...]
) -> tuple[str, dict[str, Any]]:
    """Return the type of a step and its arguments, without the ignored ones and None."""
    name = str(step.get('type'))
    if scope != SCOPE:  # our own classes keep the prefix
        name = name.removeprefix(f'{scope}.')
    values = {}
    for key, value in step.items():
        if key != 'type' and key not in ignored and value is not None:
            values[key] = value
    return name, values
