"""Writing a short commented config for user data on top of a base config."""

import colorsys
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from pprint import pformat
from typing import Any

from mmengine.config import Config

from mmflatten.config import python_text
from mmflatten.custom_data.reading import CustomData, DataError
from mmflatten.engine.class_checks import HEADS
from mmflatten.engine.learning_rate import rate_rule
from mmflatten.engine.recipe.settings import base_batch
from mmflatten.tasks import Task, task_of

COMMENTS = dict(
    ann_file='list of the images',
    data_prefix='folders that file names are relative to',
    img_suffix='of every image',
    seg_map_suffix='of every label map',
    reduce_zero_label='True if 0 means unlabelled',
    filter_cfg='images without objects are left out',
    pipeline='loading, resizing and augmentation',
)


class PythonSource(str):
    """Python expression in a config."""


def custom_config_text(
    data: CustomData, base: Config, out: Path, batch: int, checkpoint: Path | None
) -> str:
    """Write the text of the config.

    Args:
        base: config to inherit from, with `filename`.
        batch: batch size on one GPU.
        checkpoint: initial weights.
    """
    root = _common_root(data)
    blocks = [_head(data, base, out=out, root=root)]
    if data.classes:
        blocks += [_classes(data), _model(base, data, checkpoint)]
    blocks.append(_loaders(data, base, batch=batch, root=root))
    blocks += [_rate(base, batch), _weights(checkpoint)]
    return python_text('\n\n'.join(blocks) + '\n')


def _common_root(data: CustomData) -> str:
    """Return the deepest folder with all files of the data."""
    places = []
    for part in (data.train, data.val):
        places.append(part['ann_file'].parent)
        prefix = part['data_prefix']
        if isinstance(prefix, dict):
            places += prefix.values()
        else:
            places.append(prefix)
    return os.path.commonpath(places).rstrip('/')


def _weights(checkpoint: Path | None) -> str:
    if checkpoint is None:
        assignment = "# load_from = 'CHECKPOINT.pth'"
    else:
        assignment = f'load_from = {str(checkpoint.resolve())!r}'
    return f'{assignment}  # initial weights; heads of other classes are new'


def require_base(base: Config, task: Task, data: CustomData | None = None) -> None:
    """Raise DataError if the base is for another task, or does not match the data."""
    if task_of(base) is not task:
        raise DataError(
            f'--base: expected a config for --task {task.abbreviation}, got {base.filename} for'
            f' --task {task_of(base).abbreviation} (default_scope {base.default_scope}).'
        )
    if not task.has_classes:
        return
    if not list(find_heads(base.model)) and not list(find_panoptic_heads(base.model)):
        raise DataError(
            f'--base {base.filename}: the model has no head with num_classes. Choose a complete '
            'detector, segmentor or classifier.'
        )
    if 'semantic_head' in base.model.get('roi_head', {}):
        raise DataError(
            f'--base {base.filename}: semantic_head requires maps of COCO-Stuff. Choose a base'
            ' without it.'
        )
    if data is not None and needs_masks(base) and data.evaluator.get('metric') == 'bbox':
        raise DataError(
            f'--base {base.filename}: model.roi_head.mask_head requires masks, and some annotations'
            ' have no usable segmentation. Choose a base without masks, or add them.'
        )


def needs_masks(base: Config) -> bool:
    """Return True if the model has a mask head."""
    return any('mask_head' in path for path in find_heads(base.model))


def find_heads(model: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each head, or list of heads, with `num_classes`."""
    for name, child in model.items():
        here = (*path, name)
        heads = child if isinstance(child, (list, tuple)) else [child]
        has_classes = any(isinstance(head, dict) and 'num_classes' in head for head in heads)
        if has_classes and HEADS.fullmatch('.'.join(here)):
            yield here
        elif isinstance(child, dict):
            yield from find_heads(child, here)


def find_panoptic_heads(
    model: Mapping[str, Any], path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Yield the path of each head with `num_things_classes`."""
    for name, child in model.items():
        if not isinstance(child, dict):
            continue
        if 'num_things_classes' in child:
            yield (*path, name)
        yield from find_panoptic_heads(child, (*path, name))


def palette(count: int) -> list[tuple[int, int, int]]:
    """Choose distinct colours: hues at golden-angle steps, with seven alternating lightnesses."""
    lightness = (0.5, 0.3, 0.7, 0.4, 0.6, 0.25, 0.8)
    colours = []
    for index in range(count):
        hue = index * 0.618034 % 1
        channels = colorsys.hls_to_rgb(hue, lightness[index % 7], 0.9)
        red, green, blue = (round(255 * channel) for channel in channels)
        colours.append((red, green, blue))
    return colours


def source(value: Any, root: str = '') -> str:
    """Format a value as Python: dictionaries as `dict(...)`, paths relative to `root`."""
    if isinstance(value, dict):
        arguments = [f'{key}={source(item, root)}' for key, item in value.items()]
        return f'dict({", ".join(arguments)})'
    if isinstance(value, Path):
        value = Path(os.path.relpath(value, root or '/')).as_posix()
    return str(value) if isinstance(value, PythonSource) else repr(value)


def _head(data: CustomData, base: Config, out: Path, root: str) -> str:
    train, val = data.counts
    what = f'{len(data.classes)} classes, ' if data.classes else ''
    name = repr(str(out))[1:-1].replace('"', '\\"')  # inside of a docstring
    lines = [
        f'"""Custom data: {what}{train} images for training and {val} for validation; from'
        ' `mmflatten init`.',
        '',
        f'    mmflatten train {name}',
        f'    mmflatten test {name} CHECKPOINT',
        f'    mmflatten predict {name} CHECKPOINT IMAGE --out predictions',
        '"""',
        '# Model, schedule, augmentation and all other settings.',
        f'_base_ = [{os.path.realpath(base.filename)!r}]',
        f'data_root = {root + "/"!r}  # root of the paths below',
    ]
    return '\n'.join(lines)


def _classes(data: CustomData) -> str:
    colours = _wrap(palette(len(data.classes)))
    if data.num_things is not None:
        things, stuff = data.classes[: data.num_things], data.classes[data.num_things :]
        return (
            "# In the order of the labels. A single name needs a comma: ('cat', ).\n"
            f'thing_classes = {pformat(things, width=100, compact=True)}\n'
            f'stuff_classes = {pformat(stuff, width=100, compact=True)}\n'
            'classes = thing_classes + stuff_classes\n'
            f'palette = {colours}  # RGB colours of drawings\n'
            'metainfo = dict(\n    classes=classes,\n    thing_classes=thing_classes,\n'
            '    stuff_classes=stuff_classes,\n    palette=palette)'
        )
    classes = _wrap(data.classes)
    return (
        "# In the order of the labels. A single name needs a comma: ('cat', ).\n"
        f'classes = {classes}\npalette = {colours}  # RGB colours of drawings\n'
        'metainfo = dict(classes=classes, palette=palette)'
    )


def _wrap(value: Any) -> str:
    """Format a long value in several lines behind a name of seven letters."""
    return pformat(value, width=100, compact=True).replace('\n', '\n' + ' ' * 10)


def _model(base: Config, data: CustomData, checkpoint: Path | None) -> str:
    model: dict[str, Any] = {}
    names = 'classes' if data.num_things is None else 'thing_classes'
    for path in find_heads(base.model):
        node, place = _nested(model, path[:-1]), _nested(base.model, path[:-1])
        last = path[-1]
        if isinstance(place[last], dict):
            node[last] = dict(num_classes=PythonSource(f'len({names})'))
        else:
            node[last] = PythonSource(
                f'[dict(head, num_classes=len({names})) for head in _base_.model.{".".join(path)}]'
            )
    if data.num_things is not None:
        for path in find_panoptic_heads(base.model):
            _nested(model, path).update(_panoptic_fields(_nested(base.model, path)))
    if checkpoint is not None and base.model.get('backbone', {}).get('init_cfg'):
        model['backbone'] = dict(init_cfg=None)  # load_from contains them
    lines = [f'    {name}={source(value)}' for name, value in model.items()]
    text = '# All heads predict these classes.\nmodel = dict(\n' + ',\n'.join(lines) + ')'
    if 'num_classes' in base.get('data_preprocessor', {}):
        text += '\ndata_preprocessor = dict(num_classes=len(classes))'
    return text


def _nested(node: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return the dictionary at a path, which is made where it does not exist."""
    for name in path:
        node = node.setdefault(name, {})
    return node


def _panoptic_fields(head: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of classes of a head with things and stuff."""
    fields: dict[str, Any] = dict(
        num_things_classes=PythonSource('len(thing_classes)'),
        num_stuff_classes=PythonSource('len(stuff_classes)'),
    )
    weights = (head.get('loss_cls') or {}).get('class_weight')
    if isinstance(weights, (list, tuple)):  # the last one is that of no object
        weight = PythonSource(f'[{weights[0]}] * len(classes) + [{weights[-1]}]')
        fields['loss_cls'] = dict(class_weight=weight)
    return fields


def _loaders(data: CustomData, base: Config, batch: int, root: str) -> str:
    train = _dataset_fields(data, 'train', base)
    val = _dataset_fields(data, 'val', base)
    lines = [
        'train_dataloader = dict(',
        f'    batch_size={batch},',
        *_dataset_lines(train, root),
        'val_dataloader = dict(',
        *_dataset_lines(val, root),
        'test_dataloader = val_dataloader',
    ]
    if data.evaluator:
        lines += _evaluator_lines(data, base, root)
    return '\n'.join(lines)


def _dataset_fields(data: CustomData, part: str, base: Config) -> dict[str, Any]:
    """Return the arguments of the data set of `train` or `val`."""
    fields: dict[str, Any] = dict(type=data.dataset, data_root=PythonSource('data_root'))
    if data.classes:
        fields['metainfo'] = PythonSource('metainfo')
    fields |= data.train if part == 'train' else data.val
    if part == 'val':
        fields['test_mode'] = True
    # The pipeline is that of the innermost data set in wrappers such as ConcatDataset.
    place, node = f'_base_.{part}_dataloader.dataset', base[f'{part}_dataloader'].dataset
    while 'dataset' in node or 'datasets' in node:
        if 'dataset' in node:
            place, node = f'{place}.dataset', node.dataset
        else:
            place, node = f'{place}.datasets[0]', node.datasets[0]
    fields['pipeline'] = PythonSource(f'{place}.pipeline')
    return fields


def _dataset_lines(fields: dict[str, Any], root: str) -> list[str]:
    """Write a data set as the last argument of a loader, with a comment beside each field."""
    lines = ['    dataset=dict(', '        _delete_=True,']
    last = list(fields)[-1]
    for key, value in fields.items():
        end = '))' if key == last else ','
        comment = f'  # {COMMENTS[key]}' if key in COMMENTS else ''
        lines.append(f'        {key}={source(value, root)}{end}{comment}')
    return lines


def _evaluator_lines(data: CustomData, base: Config, root: str) -> list[str]:
    arguments = {}
    for key, value in data.evaluator.items():
        if isinstance(value, Path):
            value = PythonSource(f'data_root + {source(value, root)}')
        arguments[key] = value
    if 'metric' in arguments and not needs_masks(base):
        arguments['metric'] = 'bbox'
    comment = '  # the annotations of val_dataloader' if 'ann_file' in arguments else ''
    return [f'val_evaluator = {source(arguments)}{comment}', 'test_evaluator = val_evaluator']


def default_batch(base: Config, images: int) -> int:
    """Batch size of the base, or less if an epoch had fewer than ten iterations."""
    return min(base.train_dataloader.batch_size, max(4, images // 10), images)


def _rate(base: Config, batch: int) -> str:
    """Write the learning rate for a batch size on one GPU, by `rate_rule`."""
    optimizer = base.optim_wrapper.get('optimizer', {})
    old = base_batch(base)
    if not optimizer.get('lr') or not old:
        return (
            '# The base has no auto_scale_lr.base_batch_size, so its learning rate is not scaled.'
        )
    rule = rate_rule(str(optimizer.type))
    rate = optimizer.lr * rule.factor(batch / old)
    lines = [
        f'# Scaled from {optimizer.lr} for a batch of {old} to {batch} on one GPU ({rule.name}).'
        ' Use --auto-scale-lr on several.',
        f'optim_wrapper = dict(optimizer=dict(lr={rate:.3g}))',
        f'auto_scale_lr = dict(base_batch_size={batch})',
    ]
    return '\n'.join(lines)
