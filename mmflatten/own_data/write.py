"""A short commented config for a user's data, on top of a base config."""
from __future__ import annotations

import colorsys
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from pprint import pformat
from typing import Any

from mmengine.config import Config

from mmflatten.engine.hooks.data_checks import HEADS
from mmflatten.own_data.data import OwnData, OwnDataError

SCOPES = dict(det='mmdet', seg='mmseg', cls='mmpretrain', stereo='mmflatten')
COMMENTS = dict(
    ann_file='which images belong here',
    data_prefix='where file names begin',
    img_suffix='of every image',
    seg_map_suffix='of every label map',
    reduce_zero_label='True where 0 means "not labelled"',
    filter_cfg='images without an object are left out',
    pipeline='how images are read, resized, augmented')


class Source(str):
    """Python of a config, as it is written."""


def config_text(data: OwnData, base: Config, out: Path, batch: int, checkpoint: Path | None) -> str:
    """The config.

    Args:
        base: the config to inherit from; `filename` is its place.
        batch: images in a batch, on one GPU.
        checkpoint: weights to start from.
    """
    root = _common_folder(data)
    blocks = [_head(data, base, out, root), _classes(data), _model(data, base, checkpoint),
              _loaders(data, base, batch, root), _rate(base, batch), _start(checkpoint)]
    return '\n\n'.join(block for block in blocks if block) + '\n'


def require_base(base: Config, task: str, data: OwnData | None = None) -> None:
    """Raise OwnDataError unless the base is of the task, and has what it needs of the data."""
    scope = base.get('default_scope')
    if scope != SCOPES[task]:
        wanted = next((name for name, other in SCOPES.items() if other == scope), scope)
        raise OwnDataError(f'--base {base.filename} is for --task {wanted} (default_scope {scope}), and --task is '
                           f'{task}; take a config of that task')
    if task == 'stereo':
        return
    names = ['.'.join(path) for path in find_heads(base.model)]
    if not names:
        raise OwnDataError(f'--base {base.filename} has no head with num_classes in its model; take a whole detector, '
                           'segmentor or classifier')
    if 'semantic_head' in base.model.get('roi_head', {}):
        raise OwnDataError(f'--base {base.filename} trains a semantic_head on maps of COCO-Stuff; take a base without')
    if data is not None and needs_masks(base) and data.evaluator['metric'] == 'bbox':
        raise OwnDataError(f'--base {base.filename} predicts masks (model.roi_head.mask_head) and the annotations have '
                           'objects without a usable segmentation; take a base with boxes alone, or add the masks')


def needs_masks(base: Config) -> bool:
    """Whether the model has a mask head."""
    return any('mask_head' in path for path in find_heads(base.model))


def find_heads(model: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every head, or list of heads, with a `num_classes`."""
    for name, child in model.items():
        here = (*path, name)
        heads = child if isinstance(child, (list, tuple)) else [child]
        if HEADS.fullmatch('.'.join(here)) and any(isinstance(h, dict) and 'num_classes' in h for h in heads):
            yield here
        elif isinstance(child, dict):
            yield from find_heads(child, here)


def palette(count: int) -> list[tuple[int, int, int]]:
    """Colours that differ: hues a golden angle apart, in seven lightnesses by turns."""
    lightness = (.5, .3, .7, .4, .6, .25, .8)
    return [tuple(round(255 * channel) for channel in colorsys.hls_to_rgb(i * 0.618034 % 1, lightness[i % 7], .9))
            for i in range(count)]


def source(value: Any) -> str:
    """Python of a value; dictionaries as `dict(...)`."""
    if isinstance(value, dict):
        return f'dict({", ".join(f"{key}={source(item)}" for key, item in value.items())})'
    return str(value) if isinstance(value, Source) else repr(value)


def _common_folder(data: OwnData) -> str:
    places = []
    for part in (data.train, data.val):
        prefix = part['data_prefix']
        places += [part['ann_file'].parent, *(prefix.values() if isinstance(prefix, dict) else [prefix])]
    return os.path.commonpath(places).rstrip('/')


def _relative(value: Any, root: str) -> Any:
    if isinstance(value, dict):
        return {key: _relative(item, root) for key, item in value.items()}
    return Path(os.path.relpath(value, root or '/')).as_posix() if isinstance(value, Path) else value


def _wrapped(value: Any) -> str:
    return pformat(value, width=100, compact=True).replace('\n', '\n' + ' ' * 10)


def _head(data: OwnData, base: Config, out: Path, root: str) -> str:
    train, val = data.counts
    what = f'{len(data.classes)} classes, ' if data.classes else ''
    name = repr(str(out))[1:-1].replace('"', '\\"')  # inside of a docstring
    return (f'"""Own data: {what}{train} images for training and {val} for validation; from `mmflatten init`.\n\n'
            f'    mmflatten train {name}\n    mmflatten test {name} CHECKPOINT\n'
            f'    mmflatten predict {name} CHECKPOINT IMAGE --out found\n"""\n'
            '# Model, schedule and augmentation: all that is not said here.\n'
            f'_base_ = [{os.path.realpath(base.filename)!r}]\n'
            f'data_root = {root + "/"!r}  # the files below begin here')


def _classes(data: OwnData) -> str:
    if not data.classes:
        return ''
    return ("# In the order of the labels. A single name keeps its comma: ('cat', ).\n"
            f'classes = {_wrapped(data.classes)}\n'
            f'palette = {_wrapped(palette(len(data.classes)))}  # RGB of the drawings\n'
            'metainfo = dict(classes=classes, palette=palette)')


def _model(data: OwnData, base: Config, checkpoint: Path | None) -> str:
    if not data.classes:
        return ''
    number = Source('len(classes)')
    model: dict[str, Any] = {}
    for path in find_heads(base.model):
        node, place = model, base.model
        for name in path[:-1]:
            node, place = node.setdefault(name, {}), place[name]
        several = not isinstance(place[path[-1]], dict)
        listed = f'[dict(head, num_classes=len(classes)) for head in _base_.model.{".".join(path)}]'
        node[path[-1]] = Source(listed) if several else dict(num_classes=number)
    if checkpoint is not None and base.model.get('backbone', {}).get('init_cfg'):
        model['backbone'] = dict(init_cfg=None)  # load_from has these weights
    lines = [f'    {name}={source(value)},' for name, value in model.items()]
    text = '# Every head predicts these classes and no others.\nmodel = dict(\n' + '\n'.join(lines) + ')'
    if 'num_classes' in base.get('data_preprocessor', {}):
        text += '\ndata_preprocessor = dict(num_classes=len(classes))'
    return text.replace(',)', ')')


def _loaders(data: OwnData, base: Config, batch: int, root: str) -> str:
    texts = []
    for part, arguments in (('train', data.train), ('val', data.val)):
        fields = [('type', data.dataset), ('data_root', Source('data_root'))]
        fields += [('metainfo', Source('metainfo'))] * bool(data.classes)
        fields += [*_relative(arguments, root).items(), *[('test_mode', True)] * (part == 'val')]
        fields.append(('pipeline', Source(_pipeline(base, part))))
        lines = [f'        {key}={source(value)},' + (f'  # {COMMENTS[key]}' if key in COMMENTS else '')
                 for key, value in fields]
        lines[-1] = lines[-1].replace(',  #', '))  #')
        head = f'    batch_size={batch},\n' if part == 'train' else ''
        texts.append(f'{part}_dataloader = dict(\n{head}    dataset=dict(\n        _delete_=True,\n' + '\n'.join(lines))
    texts.append('test_dataloader = val_dataloader')
    if data.evaluator:
        told = {key: Source(f'data_root + {_relative(value, root)!r}') if isinstance(value, Path) else value
                for key, value in data.evaluator.items()}
        if 'metric' in told and not needs_masks(base):
            told['metric'] = 'bbox'
        comment = '  # the annotations of val_dataloader' if 'ann_file' in told else ''
        texts += [f'val_evaluator = {source(told)}{comment}', 'test_evaluator = val_evaluator']
    return '\n'.join(texts)


def _pipeline(base: Config, part: str) -> str:
    """Where the base keeps the pipeline of a loader, inside of whatever wraps the data set."""
    place, node = f'_base_.{part}_dataloader.dataset', base[f'{part}_dataloader'].dataset
    while 'dataset' in node or 'datasets' in node:
        place, node = ((f'{place}.dataset', node.dataset) if 'dataset' in node else
                       (f'{place}.datasets[0]', node.datasets[0]))
    return f'{place}.pipeline'


def _rate(base: Config, batch: int) -> str:
    rate = base.optim_wrapper.get('optimizer', {}).get('lr')
    base_batch = base.get('auto_scale_lr', {}).get('base_batch_size')
    if rate is None or base_batch is None:
        return '# The base does not say for which batch its learning rate was chosen, so it is left as it is.'
    return (f"# The base's {rate} is for a batch of {base_batch}; this is for {batch} images on one GPU. On several, "
            f'train with --auto-scale-lr.\n'
            f'optim_wrapper = dict(optimizer=dict(lr={rate} * {batch} / {base_batch}))\n'
            f'auto_scale_lr = dict(base_batch_size={batch})')


def _start(checkpoint: Path | None) -> str:
    if checkpoint is None:
        return "# load_from = 'CHECKPOINT.pth'  # weights to start from; a head for other classes starts anew"
    return f'load_from = {str(checkpoint.resolve())!r}  # weights to start from; a head for other classes starts anew'
