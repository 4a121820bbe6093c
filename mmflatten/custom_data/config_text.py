"""Writing a short commented config for user data on top of a base config."""

import colorsys
import copy
import os
from pathlib import Path
from pprint import pformat
from typing import Any

from mmengine.config import Config

from mmflatten.config import python_text, require_parts
from mmflatten.custom_data.base_changes import BaseChanges
from mmflatten.custom_data.config_source import Edit, assignment
from mmflatten.custom_data.reading import CustomData, DataError
from mmflatten.engine.learning_rate import rate_rule
from mmflatten.engine.recipe.settings import base_batch, grad_accum_steps, schedulers
from mmflatten.tasks import Task, task_of

# fields of a config that can be trained and validated
PARTS = ('model', 'train_cfg', 'train_dataloader', 'val_dataloader', 'optim_wrapper')


def custom_config_text(
    changes: BaseChanges,
    data: CustomData,
    base: Config,
    out: Path,
    batch: int,
    checkpoint: Path | None,
) -> str:
    """Write the text of the config.

    Args:
        changes: of the base for the data, from `changes_for`.
        base: config to inherit from, with `filename`.
        batch: batch size on one GPU.
        checkpoint: initial weights.
    """
    root = data.root
    edits = copy.deepcopy(changes.edits)
    edits['train_dataloader'] = Edit(batch_size=batch, **edits['train_dataloader'])
    if checkpoint is not None and (base.model.get('backbone') or {}).get('init_cfg'):
        edits.set(('model', 'backbone', 'init_cfg'), None)  # load_from contains them
    blocks = [_head(data, base, out=out, root=root)]
    if data.classes:
        blocks += [_classes(data), _model(edits, base)]
    blocks.append(_data(edits, data, base, root))
    blocks += [_rate(base, batch), _weights(checkpoint)]
    return python_text('\n\n'.join(blocks) + '\n')


def _weights(checkpoint: Path | None) -> str:
    if checkpoint is None:
        line = "# load_from = 'CHECKPOINT.pth'"
    else:
        line = f'load_from = {str(checkpoint.resolve())!r}'
    return f'{line}  # initial weights; heads of other classes are new'


def require_base(base: Config, task: Task) -> None:
    """Raise DataError if the base is for another task, or is not a complete config."""
    require_parts(base, *PARTS)
    if task_of(base) is not task:
        raise DataError(
            f'--base: expected a config for --task {task.abbreviation}, got {base.filename} for'
            f' --task {task_of(base).abbreviation} (default_scope {base.default_scope}).'
        )


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


def _model(edits: Edit, base: Config) -> str:
    """Write the changes outside of loaders and metrics."""
    lines = ['# Arguments that depend on the classes and labels.']
    for name, edit in edits.items():
        if not name.endswith(('_dataloader', '_evaluator')):
            lines.append(assignment(name, edit, base))
    return '\n'.join(lines)


def _data(edits: Edit, data: CustomData, base: Config, root: str) -> str:
    """Write the loaders and metrics. Those for testing refer to those for validation if they are
    equal in the base.
    """
    lines = [assignment('train_dataloader', edits['train_dataloader'], base, root)]
    for kind in ('dataloader', 'evaluator'):
        val, test = f'val_{kind}', f'test_{kind}'
        if val in edits:
            lines.append(assignment(val, edits[val], base, root))
        if test in edits and base.get(test) == base.get(val):
            lines.append(f'{test} = {val}')
        elif test in edits:
            lines.append(assignment(test, edits[test], base, root))
    return '\n'.join(lines)


def default_batch(base: Config, images: int) -> int:
    """Batch size of the base, or less if an epoch had fewer than ten iterations."""
    per_gpu = base.train_dataloader.get('batch_size', 1)  # 1 is PyTorch's default
    return min(per_gpu, max(4, images // 10), images)


def _rate(base: Config, batch: int) -> str:
    """Write the learning rate for a batch size on one GPU, by `rate_rule`."""
    wrapper = base.optim_wrapper
    old = base_batch(base)
    if not old:
        return (
            '# The base has no auto_scale_lr.base_batch_size, so its learning rate is not scaled.'
        )
    if any(item.get('eta_max') for item in schedulers(base)):
        return (
            '# The base has its learning rate in eta_max of param_scheduler, so it is not scaled,'
            f' and stays that\n# for a batch of {old}.'
        )
    if not (wrapper.get('optimizer') or {}).get('lr'):
        return (
            '# The base has no optim_wrapper.optimizer.lr, so its learning rate is not scaled, and'
            f' stays that\n# for a batch of {old}.'
        )
    optimizer = wrapper.optimizer
    rule = rate_rule(str(optimizer.type))
    accumulated = grad_accum_steps(base)
    new = batch * accumulated
    rate = optimizer.lr * rule.factor(new / old)
    lines = [
        f'# Scaled from {optimizer.lr} for a batch of {old} to {new} on one GPU ({rule.name}).'
        ' Use --auto-scale-lr on several.',
        f'optim_wrapper = dict(optimizer=dict(lr={rate:.3g}))',
        f'auto_scale_lr = dict(base_batch_size={new})',
    ]
    if accumulated > 1:
        lines.insert(1, f'# The batch of {new} has {accumulated} accumulated steps of {batch}.')
    return '\n'.join(lines)
