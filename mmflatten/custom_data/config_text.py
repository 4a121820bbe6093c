"""Writing a short commented config for user data on top of a base config."""

import colorsys
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from pprint import pformat
from typing import Any

from mmengine.config import Config

from mmflatten.config import python_text
from mmflatten.custom_data.reading import CustomData, DataError
from mmflatten.engine.class_checks import HEADS
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
    places = []
    for part in (data.train, data.val):
        prefix = part['data_prefix']
        places += [
            part['ann_file'].parent,
            *(prefix.values() if isinstance(prefix, dict) else [prefix]),
        ]
    root = os.path.commonpath(places).rstrip('/')
    start = (
        "# load_from = 'CHECKPOINT.pth'"
        if checkpoint is None
        else f'load_from = {str(checkpoint.resolve())!r}'
    )
    blocks = [_head(data, base, out, root)]
    if data.classes:
        blocks += [_classes(data), _model(base, checkpoint)]
    blocks += [
        _loaders(data, base, batch, root),
        _rate(base, batch),
        f'{start}  # initial weights; heads of other classes are new',
    ]
    return python_text('\n\n'.join(blocks) + '\n')


def require_base(base: Config, task: Task, data: CustomData | None = None) -> None:
    """Raise DataError if the base is for another task, or does not match the data."""
    if task_of(base) is not task:
        raise DataError(
            f'--base: expected a config for --task {task.abbreviation}, got {base.filename} for'
            f' --task {task_of(base).abbreviation} (default_scope {base.default_scope}).'
        )
    if not task.has_classes:
        return
    names = ['.'.join(path) for path in find_heads(base.model)]
    if not names:
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
        if HEADS.fullmatch('.'.join(here)) and any(
            isinstance(h, dict) and 'num_classes' in h for h in heads
        ):
            yield here
        elif isinstance(child, dict):
            yield from find_heads(child, here)


def palette(count: int) -> list[tuple[int, int, int]]:
    """Choose distinct colours: hues at golden-angle steps, with seven alternating lightnesses."""
    lightness = (0.5, 0.3, 0.7, 0.4, 0.6, 0.25, 0.8)
    return [
        tuple(
            round(255 * channel)
            for channel in colorsys.hls_to_rgb(i * 0.618034 % 1, lightness[i % 7], 0.9)
        )
        for i in range(count)
    ]


def source(value: Any, root: str = '') -> str:
    """Format a value as Python: dictionaries as `dict(...)`, paths relative to `root`."""
    if isinstance(value, dict):
        return f'dict({", ".join(f"{key}={source(item, root)}" for key, item in value.items())})'
    if isinstance(value, Path):
        value = Path(os.path.relpath(value, root or '/')).as_posix()
    return str(value) if isinstance(value, PythonSource) else repr(value)


def _head(data: CustomData, base: Config, out: Path, root: str) -> str:
    train, val = data.counts
    what = f'{len(data.classes)} classes, ' if data.classes else ''
    name = repr(str(out))[1:-1].replace('"', '\\"')  # inside of a docstring
    return (
        f'"""Custom data: {what}{train} images for training and {val} for validation; from'
        f' `mmflatten init`.\n\n    mmflatten train {name}\n    mmflatten test {name} CHECKPOINT\n '
        f'   mmflatten predict {name} CHECKPOINT IMAGE --out predictions\n"""\n# Model, schedule,'
        ' augmentation and all other settings.\n_base_ ='
        f' [{os.path.realpath(base.filename)!r}]\ndata_root = {root + "/"!r}  # root of the paths'
        ' below'
    )


def _classes(data: CustomData) -> str:
    classes, colours = (
        pformat(value, width=100, compact=True).replace('\n', '\n' + ' ' * 10)
        for value in (data.classes, palette(len(data.classes)))
    )
    return (
        "# In the order of the labels. A single name needs a comma: ('cat', ).\n"
        f'classes = {classes}\npalette = {colours}  # RGB colours of drawings\n'
        'metainfo = dict(classes=classes, palette=palette)'
    )


def _model(base: Config, checkpoint: Path | None) -> str:
    model: dict[str, Any] = {}
    for path in find_heads(base.model):
        node, place = model, base.model
        for name in path[:-1]:
            node, place = node.setdefault(name, {}), place[name]
        if isinstance(place[path[-1]], dict):
            node[path[-1]] = dict(num_classes=PythonSource('len(classes)'))
        else:
            node[path[-1]] = PythonSource(
                f'[dict(head, num_classes=len(classes)) for head in _base_.model.{".".join(path)}]'
            )
    if checkpoint is not None and base.model.get('backbone', {}).get('init_cfg'):
        model['backbone'] = dict(init_cfg=None)  # load_from contains them
    lines = ',\n'.join(f'    {name}={source(value)}' for name, value in model.items())
    text = f'# All heads predict these classes.\nmodel = dict(\n{lines})'
    if 'num_classes' in base.get('data_preprocessor', {}):
        text += '\ndata_preprocessor = dict(num_classes=len(classes))'
    return text


def _loaders(data: CustomData, base: Config, batch: int, root: str) -> str:
    texts = []
    for part, arguments in (('train', data.train), ('val', data.val)):
        fields = dict(type=data.dataset, data_root=PythonSource('data_root'))
        if data.classes:
            fields['metainfo'] = PythonSource('metainfo')
        fields |= arguments
        if part == 'val':
            fields['test_mode'] = True
        place, node = f'_base_.{part}_dataloader.dataset', base[f'{part}_dataloader'].dataset
        while 'dataset' in node or 'datasets' in node:  # wrappers
            place, node = (
                (f'{place}.dataset', node.dataset)
                if 'dataset' in node
                else (f'{place}.datasets[0]', node.datasets[0])
            )
        fields['pipeline'] = PythonSource(f'{place}.pipeline')
        lines = [
            f'        {key}={source(value, root)},'
            + (f'  # {COMMENTS[key]}' if key in COMMENTS else '')
            for key, value in fields.items()
        ]
        lines[-1] = lines[-1].replace(',  #', '))  #')
        head = f'    batch_size={batch},\n' if part == 'train' else ''
        texts.append(
            f'{part}_dataloader = dict(\n{head}    dataset=dict(\n        _delete_=True,\n'
            + '\n'.join(lines)
        )
    texts.append('test_dataloader = val_dataloader')
    if data.evaluator:
        evaluator = {
            key: (
                PythonSource(f'data_root + {source(value, root)}')
                if isinstance(value, Path)
                else value
            )
            for key, value in data.evaluator.items()
        }
        if 'metric' in evaluator and not needs_masks(base):
            evaluator['metric'] = 'bbox'
        comment = '  # the annotations of val_dataloader' if 'ann_file' in evaluator else ''
        texts += [f'val_evaluator = {source(evaluator)}{comment}', 'test_evaluator = val_evaluator']
    return '\n'.join(texts)


def default_batch(base: Config, images: int) -> int:
    """Batch size of the base, or less if an epoch had fewer than ten iterations."""
    return min(base.train_dataloader.batch_size, max(4, images // 10), images)


def _rate(base: Config, batch: int) -> str:
    """Write the learning rate for a batch size on one GPU.

    SGD's rate is proportional to the batch (Goyal et al., arXiv 1706.02677), Adam's to its square
    root (Malladi et al., arXiv 2205.10287).
    """
    optimizer, old = base.optim_wrapper.get('optimizer', {}), base_batch(base)
    if not optimizer.get('lr') or not old:
        return (
            '# The base has no auto_scale_lr.base_batch_size, so its learning rate is not scaled.'
        )
    adaptive = 'Adam' in optimizer.type
    lr = optimizer.lr * (math.sqrt(batch / old) if adaptive else batch / old)
    return (
        f'# Scaled from {optimizer.lr} for a batch of {old} to {batch} on one GPU'
        f' ({"square root" if adaptive else "linear"}). Use --auto-scale-lr on'
        f' several.\noptim_wrapper = dict(optimizer=dict(lr={lr:.3g}))\nauto_scale_lr ='
        f' dict(base_batch_size={batch})'
    )
