"""How a published model takes its images: a few numbers, from which the pipeline and the preprocessor are built."""
import math
from collections.abc import Callable, ItemsView, Mapping
from itertools import zip_longest
from typing import Any

from mmflatten.engine.datasets import leaves
from mmflatten.hub.config_data import HubError
from mmflatten.models.stereo.data_preprocessor import IMAGENET_MEAN, IMAGENET_STD

_SIDES, _DIVISORS = range(1, 2**13 + 1), range(1, 2**10 + 1)
_FIELDS: dict[str, tuple[Any, Callable[[Any], bool], str]] = dict(  # default, check, what is expected
    mean=(None, lambda value: value is None or _are_channels(value), 'three numbers, of R, G and B if rgb'),
    std=(None, lambda value: value is None or _are_channels(value) and min(value) > 0, 'three positive numbers'),
    rgb=(False, lambda value: isinstance(value, bool), 'true or false'),
    size=(None, lambda value: isinstance(value, list) and len(value) == 2 and all(map(_is_side, value)),
          f'a width and a height from 1 to {_SIDES[-1]}'),
    keep_ratio=(False, lambda value: isinstance(value, bool), 'true or false'),
    short_edge=(None, lambda value: _is_side(value), f'an integer from 1 to {_SIDES[-1]}'),
    crop=(None, lambda value: _is_side(value), f'an integer from 1 to {_SIDES[-1]}'),
    multiple=(None, lambda value: _is_side(value, _DIVISORS), f'an integer from 1 to {_DIVISORS[-1]}'),
    backend=('cv2', lambda value: value in ('cv2', 'pillow'), 'cv2 or pillow'),
    interpolation=('bilinear', lambda value: value in ('area', 'bicubic', 'bilinear', 'lanczos', 'nearest'),
                   'area, bicubic, bilinear, lanczos or nearest'),
    pad_divisor=(None, lambda value: _is_side(value, _DIVISORS), f'an integer from 1 to {_DIVISORS[-1]}'),
    pad_value=(None, lambda value: _is_number(value), 'a number'))
_STEPS = {  # transforms between loading and packing, in this order: fields of their arguments
    'Resize': dict(scale='size', keep_ratio='keep_ratio', backend='backend', interpolation='interpolation'),
    'ResizeEdge': dict(scale='short_edge', backend='backend', interpolation='interpolation'),
    'CenterCrop': dict(crop_size='crop'), 'ResizeToMultiple': dict(size_divisor='multiple')}
_ENDS = dict(mmpretrain=('LoadImageFromFile', 'PackInputs'), mmdet=('LoadImageFromFile', 'PackDetInputs'),
             mmseg=('LoadImageFromFile', 'PackSegInputs'),
             mmflatten=('mmflatten.LoadStereoPair', 'mmflatten.PackStereoInputs'))
_PADDING = dict(pad_size_divisor='pad_divisor', pad_value='pad_value')
_PREPROCESSORS: dict[str, tuple[dict[str, Any], dict[str, str]]] = dict(  # defaults, fields of the arguments
    mmpretrain=(dict(type='ClsDataPreprocessor', to_rgb=False), dict(to_rgb='rgb', **_PADDING)),
    mmdet=(dict(type='DetDataPreprocessor', bgr_to_rgb=False), dict(bgr_to_rgb='rgb', **_PADDING)),
    mmseg=(dict(type='SegDataPreProcessor', bgr_to_rgb=False), dict(bgr_to_rgb='rgb')),
    mmflatten=(dict(type='mmflatten.StereoDataPreProcessor', mean=IMAGENET_MEAN, std=IMAGENET_STD, bgr_to_rgb=True),
               dict(bgr_to_rgb='rgb', pad_divisor='pad_divisor')))
_TRUTH = ('LoadAnnotations', 'LoadDisparity')
# Arguments that do not change the input: what is packed with it, addresses of files, and those of a training.
_NAMES = ('meta_keys', 'algorithm_keys', 'backend_args', 'file_client_args')
_TRAINING = ('num_classes', 'batch_augments', 'pad_mask', 'mask_pad_value', 'pad_seg', 'seg_pad_value', 'size',
             'size_divisor', 'pad_val', 'seg_pad_val', 'non_blocking')
_DEFAULTS = dict(keep_ratio=False, backend='cv2', interpolation='bilinear', edge='short', to_float32=False,
                 color_type='color', imdecode_backend='cv2', rgb_to_bgr=False, clip_object_border=True)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and abs(value) < 2**20


def _is_side(value: Any, allowed: range = _SIDES) -> bool:
    return type(value) is int and value in allowed


def _are_channels(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_number, value))


def checked(numbers: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the numbers of `input_of` or of a file, with the defaults of those that are missing.

    Raises:
        HubError: one is unknown, or has another type or size.
    """
    for name, value in numbers.items():
        if name not in _FIELDS:
            raise HubError(f'{where}: expected fields among {", ".join(_FIELDS)}, got {name[:80]!r}.')
        if not _FIELDS[name][1](value):
            raise HubError(f'{where}.{name}: expected {_FIELDS[name][2]}, got {str(value)[:80]!r}.')
    return {name: numbers.get(name, default) for name, (default, *_) in _FIELDS.items()}


def pipeline_of(numbers: Mapping[str, Any], scope: str) -> list[dict[str, Any]]:
    """Build the test pipeline of a task's scope from `checked` numbers."""
    first, last = _ENDS[scope]
    resize = dict(backend=numbers['backend'], interpolation=numbers['interpolation'])
    steps: list[dict[str, Any]] = [dict(type=first)]
    if numbers['size']:
        steps.append(dict(type='Resize', scale=tuple(numbers['size']), keep_ratio=numbers['keep_ratio'], **resize))
    if numbers['short_edge']:
        steps.append(dict(type='ResizeEdge', scale=numbers['short_edge'], edge='short', **resize))
    if numbers['crop']:
        steps.append(dict(type='CenterCrop', crop_size=numbers['crop']))
    if numbers['multiple']:
        steps.append(dict(type='ResizeToMultiple', size_divisor=numbers['multiple']))
    keys = dict(meta_keys=('img_path', 'ori_shape', 'img_shape', 'scale_factor')) if scope == 'mmdet' else {}
    return [*steps, dict(type=last, **keys)]


def preprocessor_of(numbers: Mapping[str, Any], scope: str) -> dict[str, Any]:
    """Build the config of the data preprocessor from `checked` numbers."""
    defaults, arguments = _PREPROCESSORS[scope]
    return dict(type=defaults['type'], **{argument: numbers[name] for argument, name in _fields(arguments)
                                          if numbers[name] is not None})


def input_of(cfg: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the numbers of a config's test pipeline and data preprocessor.

    Raises:
        HubError: they do something that the numbers do not say.
    """
    scope = cfg['default_scope']
    if scope not in _ENDS:
        raise HubError(f'{where}: default_scope: expected one of {", ".join(_ENDS)}, got {scope}.')
    dataset, _ = next(leaves(cfg['test_dataloader']['dataset']))
    steps = [_plain(step, scope, _NAMES) for step in dataset.get('pipeline') or ()]
    steps = [step for step in steps if step['type'].removeprefix('mmflatten.') not in _TRUTH]
    defaults, arguments = _PREPROCESSORS[scope]
    preprocessor = cfg['model'].get('data_preprocessor') or cfg.get('data_preprocessor') or {}
    given = _plain({**defaults, **preprocessor}, scope, _TRAINING)
    found = {name: step[argument] for step in steps for argument, name in _STEPS.get(step['type'], {}).items()
             if argument in step}
    found |= {name: given[argument] for argument, name in _fields(arguments) if argument in given}
    numbers = checked(found, f'{where}: input')
    for step, ours in zip_longest(steps, (_plain(step, scope, _NAMES) for step in pipeline_of(numbers, scope))):
        if step != ours:
            raise HubError(f'{where}: test_dataloader.dataset.pipeline: {_text(step)} cannot be published, expected '
                           f'{_text(ours)}. After loading, a published model uses at most {", ".join(_STEPS)}, in this '
                           'order.')
    if given != (ours := _plain(preprocessor_of(numbers, scope), scope, ())):
        raise HubError(f'{where}: data_preprocessor: {_text(given)} cannot be published, expected {_text(ours)}.')
    return {name: value for name, value in numbers.items() if value != _FIELDS[name][0]}


def _fields(arguments: Mapping[str, str]) -> ItemsView[str, str]:
    return dict(mean='mean', std='std', **arguments).items()


def _plain(step: Mapping[str, Any], scope: str, ignored: tuple[str, ...]) -> dict[str, Any]:
    """Return what decides about the input, in one form."""
    return dict(type=str(step.get('type')).removeprefix(f'{scope}.' if scope != 'mmflatten' else ''), **{
        key: list(value) if isinstance(value, tuple) else value for key, value in step.items()
        if key != 'type' and key not in ignored and value is not None and _DEFAULTS.get(key, _DEFAULTS) != value})


def _text(step: Mapping[str, Any] | None) -> str:
    return ', '.join(f'{key}={value}' for key, value in step.items())[:200] if step else 'the end'
