"""Settings of `mmflatten linearize`, and the configs of its two trainings."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmengine.config import Config, ConfigDict
from mmengine.dist import get_world_size
from mmengine.registry import DefaultScope

from mmflatten.config import config_text, model_config
from mmflatten.data_folders import IMAGE_SUFFIXES
from mmflatten.engine.datasets import build_dataset, first_config
from mmflatten.engine.setup import set_amp
from mmflatten.untrusted.files import images_in

ALIGN, DISTIL = 'align', 'distil'
KINDS = {ALIGN: 'mmflatten.BlockAlignment', DISTIL: 'mmflatten.Distillation'}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    # Clipping the gradients of all blocks would couple their separate trainings.
    ALIGN: dict(optimizer=dict(type='AdamW', lr=1e-3, weight_decay=0.0)),
    DISTIL: dict(
        optimizer=dict(type='AdamW', lr=5e-4, weight_decay=0.05), clip_grad=dict(max_norm=5.0)
    ),
}
WARM_UP = 0.05  # fraction of the iterations
DISTIL_SEED = 10_000  # is added to the seed, so that short steps see different images


@dataclass(frozen=True)
class Settings:
    """Settings on which the result depends.

    Attributes:
        config, checkpoint: files of the teacher.
        attention: config of the new attention.
        blocks: numbers of the blocks, sorted, or 'all' or 'auto'.
        size, budget: image size and relative time for the choice of blocks.
        images: folder of images without labels; None for the training data of the config.
        epochs: passes over the images in each step.
        steps: `ALIGN`, `DISTIL` or both.
        options: fields of the configs of both steps.
        amp: type of mixed precision.
    """

    config: str
    checkpoint: str
    attention: dict[str, Any]
    blocks: list[int] | str
    size: list[int] | None = None
    budget: float | None = None
    images: str | None = None
    epochs: float = 1.0
    steps: list[str] = field(default_factory=lambda: [ALIGN, DISTIL])
    options: dict[str, Any] = field(default_factory=dict)
    amp: str | None = None


def text_of(cfg: Config) -> str:
    """Format a config as Python, without the fields of a single run."""
    cfg = copy.deepcopy(cfg)
    for name in ('launcher', 'work_dir', 'model_wrapper_cfg', 'load_from', 'resume'):
        cfg.pop(name, None)
    return config_text(cfg)


def step_config(
    step: str,
    cfg: Config,
    student_cfg: Config,
    settings: Settings,
    weights: Path,
    names: Sequence[str],
) -> Config:
    """Config of the training of a step."""
    made = copy.deepcopy(student_cfg)
    made.model.backbone.pop('frozen_stages', None)
    # the loader's, before its batches are counted
    made.merge_from_dict(copy.deepcopy(settings.options))
    made.model = ConfigDict(
        type=KINDS[step],
        teacher=model_config(cfg),
        student=model_config(made),
        teacher_weights=settings.checkpoint,
        student_weights=str(weights),
    )
    if step == ALIGN:
        made.model.blocks = list(names)
    made.pop('data_preprocessor', None)
    max_iters = iterations(made, settings.epochs)
    made.train_cfg = ConfigDict(
        type='IterBasedTrainLoop', max_iters=max_iters, val_interval=max_iters
    )
    made.optim_wrapper = ConfigDict(type='OptimWrapper', **copy.deepcopy(OPTIMIZERS[step]))
    made.param_scheduler = schedule(max_iters)
    unused = [
        'custom_hooks',
        'auto_scale_lr',
        'load_from',
        'test_dataloader',
        'test_cfg',
        'test_evaluator',
    ]
    if step == ALIGN or not made.get('val_dataloader'):
        unused += ['val_dataloader', 'val_cfg', 'val_evaluator']
    hooks = dict(checkpoint=dict(interval=max(1, max_iters // 10), max_keep_ckpts=1))
    made.default_hooks = ConfigDict(made.get('default_hooks') or {}, **hooks)
    made.log_processor = ConfigDict(by_epoch=False)
    made.resume = False
    if made.get('val_cfg') is not None:
        made.val_cfg = ConfigDict(type='ValLoop')
    made.merge_from_dict(copy.deepcopy(settings.options))
    for name in unused:
        made.pop(name, None)
    if step == DISTIL and (seed := (made.get('randomness') or {}).get('seed')) is not None:
        made.randomness.seed = (seed + DISTIL_SEED) % 2**32
    if settings.amp is not None:
        set_amp(made, None if settings.amp == 'config' else settings.amp)
    return made


def iterations(cfg: Config, epochs: float) -> int:
    """Iterations per process for a possibly fractional number of epochs over the training data."""
    loader = cfg.train_dataloader
    with DefaultScope.overwrite_default_scope(cfg.get('default_scope') or 'mmengine'):
        images = len(build_dataset(copy.deepcopy(loader.dataset)))
    return max(1, round(epochs * images / loader.batch_size / get_world_size()))


def schedule(max_iters: int) -> list[ConfigDict]:
    """Linear warm-up, then cosine decay."""
    start = round(WARM_UP * max_iters)
    if start <= 1:  # MMEngine's warm-up of one iteration would never end
        start = 0
    cosine = ConfigDict(
        type='CosineAnnealingLR', eta_min=1e-6, by_epoch=False, begin=start, end=max_iters
    )
    if not start:
        return [cosine]
    rise = ConfigDict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end=start)
    return [rise, cosine]


def use_images(cfg: Config, folder: str) -> None:
    """Train on the images of a folder, with the test pipeline.

    Raises:
        ValueError: the folder has no images, or the test data have no pipeline.
    """
    if not images_in(Path(folder), IMAGE_SUFFIXES, deep=True):
        raise ValueError(
            f'--images: expected a folder with images ({", ".join(IMAGE_SUFFIXES)}), got {folder}.'
        )
    tested = cfg.get('test_dataloader') or cfg.get('val_dataloader') or {}
    part = first_config(tested['dataset']) if 'dataset' in tested else {}
    if not part.get('pipeline'):
        raise ValueError(
            '--images: expected a config whose test data have a pipeline, which reads image files,'
            f' got {part.get("type")}.'
        )
    steps = copy.deepcopy(part['pipeline'])
    pipeline = [step for step in steps if 'LoadAnnotations' not in step['type']]
    loader = cfg.train_dataloader
    for name in ('batch_sampler', 'sampler'):
        loader.pop(name, None)
    loader.sampler = dict(type='DefaultSampler', shuffle=True)
    loader.dataset = dict(
        type='mmpretrain.CustomDataset',
        data_root=folder,
        with_label=False,
        pipeline=pipeline,
        extensions=IMAGE_SUFFIXES,
    )
