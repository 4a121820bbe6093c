"""The steps of `mmflatten linearize`: swap, align, choose, distil. Each leaves a file, and is not repeated."""
from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mmengine.config import Config, ConfigDict
from mmengine.dist import barrier, get_world_size, is_main_process
from mmengine.registry import DefaultScope
from mmengine.runner import save_checkpoint
from torch import Tensor

from mmflatten.checkpoints.loading import load_from_local, load_weights
from mmflatten.checkpoints.run_files import atomic_write, newest_checkpoint
from mmflatten.config import build_model, config_text, model_config, require_parts
from mmflatten.engine.datasets import build_dataset, leaves
from mmflatten.engine.setup import set_amp, set_resume, train
from mmflatten.json_files import read_json
from mmflatten_lab.linearize.choice import choose, measure_times, read_choice
from mmflatten_lab.linearize.images import images_of
from mmflatten_lab.linearize.swap import blocks_of, build_swapped, swapped_config

ALIGN, DISTIL = 'align', 'distil'
KINDS = {ALIGN: 'mmflatten.BlockAlignment', DISTIL: 'mmflatten.Distillation'}
OPTIMIZERS: dict[str, dict[str, Any]] = {  # clipping would mix the blocks, which learn apart
    ALIGN: dict(optimizer=dict(type='AdamW', lr=1e-3, weight_decay=0.)),
    DISTIL: dict(optimizer=dict(type='AdamW', lr=5e-4, weight_decay=.05), clip_grad=dict(max_norm=5.))}
WARM_UP = .05  # share of the iterations
DISTIL_SEED = 10_000  # is added to the seed, so that short steps see different images


@dataclass(frozen=True)
class Settings:
    """What a result depends on.

    Attributes:
        config, checkpoint: of the teacher.
        attention: config of the new attention.
        blocks: numbers of the blocks, sorted, or 'all' or 'auto'.
        size, budget: of the choice.
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
    epochs: float = 1.
    steps: list[str] = field(default_factory=lambda: [ALIGN, DISTIL])
    options: dict[str, Any] = field(default_factory=dict)
    amp: str | None = None


class Linearization:
    """A teacher, the folder of the results, and the steps.

    Args:
        cfg: config of the teacher, from `load_config`.
        command: command line that continues after an interruption.

    Raises:
        ValueError: the blocks do not exist, or `out` has results of other settings.
        CheckpointError: the checkpoint does not fit.
    """

    def __init__(self, cfg: Config, settings: Settings, out: Path, say: Callable[[str], None],
                 command: Sequence[str] = ()) -> None:
        require_parts(cfg, 'model', 'train_dataloader')
        self.cfg, self.settings, self.out, self.say, self.command = cfg, settings, out, say, command
        self.teacher = build_model(cfg).eval()
        checkpoint = load_from_local(settings.checkpoint)
        load_weights(self.teacher, checkpoint, settings.checkpoint)
        meta = checkpoint['meta'] if isinstance(checkpoint.get('meta'), dict) else {}
        self.meta = {name: value for name, value in meta.items() if name == 'dataset_meta'}
        self.names = list(blocks_of(self.teacher))
        self.candidates = list(range(len(self.names))) if isinstance(settings.blocks, str) else settings.blocks
        unknown = [number for number in self.candidates if number >= len(self.names)]
        if unknown or not self.candidates:
            raise ValueError(f'--blocks: expected numbers from 0 to {len(self.names) - 1}, got '
                             f'{", ".join(map(str, unknown)) or "none"}.')
        self.student_cfg = swapped_config(cfg, self.teacher, settings.attention, self.candidates)
        self.student = build_swapped(self.student_cfg, self.teacher, self.candidates)
        if settings.images is not None:
            use_images(self.student_cfg, settings.images)
        self._claim()

    def _claim(self) -> None:
        """Write the settings, or compare them with those of earlier results."""
        path, mine = self.out / 'settings.json', json.loads(json.dumps(asdict(self.settings)))
        teacher, file = hashlib.sha256(text_of(self.cfg).encode()), Path(self.settings.checkpoint)
        teacher.update(file.read_bytes() if file.is_file() else b'')
        mine['sha256 of the teacher'] = teacher.hexdigest()
        if path.exists():
            before = read_json(path)
            changed = [name for name in mine if mine[name] != before.get(name)]
            if changed:
                raise ValueError(f'--out: {self.out} has results with {changed[0]} {before.get(changed[0])}, got '
                                 f'{mine[changed[0]]}. Name another folder or remove this one.')
        elif is_main_process():
            with atomic_write(path) as aside:
                aside.write_text(json.dumps(mine, indent=1), encoding='utf-8')
        barrier()

    def run(self) -> Path:
        """Take all steps and return the checkpoint of the result; its config lies beside it.

        Raises:
            ValueError: no choice of blocks meets the budget.
        """
        weights = self.out / 'swap.pth'
        self._save(weights, self.student.state_dict())
        auto, budget = self.settings.blocks == 'auto', self.settings.budget or 1.
        if auto and is_main_process() and not (times := self.out / 'times.json').exists():
            self.say(f'measuring {len(self.names)} blocks')
            measure_times(times, self.teacher, self.student, self.settings.size or (), budget)
        barrier()
        if ALIGN in self.settings.steps:
            weights = self._learn(ALIGN, self.student_cfg, weights, self.candidates)
        chosen = self.candidates
        if auto:
            if is_main_process() and not (self.out / 'chosen.csv').exists():
                self.student.load_state_dict(load_from_local(str(weights))['state_dict'])
                choose(self.out, self.cfg, self.teacher, self.student, budget, self.say)
            barrier()
            chosen = read_choice(self.out)
            weights = self._assemble(chosen, weights)
        if DISTIL in self.settings.steps:
            weights = self._learn(DISTIL, self._config_with(chosen), weights, chosen)
        final = self.out / 'linearized.pth'
        if is_main_process():
            with atomic_write(final) as aside:
                aside.write_bytes(weights.read_bytes())
            cfg = swapped_config(self.cfg, self.teacher, self.settings.attention, chosen)
            with atomic_write(final.with_suffix('.py')) as aside:
                aside.write_text(text_of(cfg), encoding='utf-8')
        barrier()
        return final

    def _config_with(self, chosen: Sequence[int]) -> Config:
        cfg = swapped_config(self.cfg, self.teacher, self.settings.attention, chosen)
        if self.settings.images is not None:
            use_images(cfg, self.settings.images)
        return cfg

    def _assemble(self, chosen: Sequence[int], aligned: Path) -> Path:
        """Save the weights of the teacher with the aligned attentions of the chosen blocks."""
        path = self.out / 'chosen.pth'
        student = build_swapped(self._config_with(chosen), self.teacher, chosen)
        prefixes = tuple(f'backbone.{self.names[number]}.' for number in chosen)
        given = load_from_local(str(aligned))['state_dict']
        own = {name: given[name] if name.startswith(prefixes) else value
               for name, value in student.state_dict().items()}
        self._save(path, own)
        return path

    def _save(self, path: Path, weights: Mapping[str, Tensor]) -> None:
        if is_main_process() and not path.exists():
            with atomic_write(path) as aside:
                save_checkpoint(dict(state_dict=dict(weights), meta=self.meta), str(aside))  # a full disk has a cause
        barrier()

    def _learn(self, step: str, student_cfg: Config, weights: Path, chosen: Sequence[int]) -> Path:
        """Run one step, or what is left of it, and save the weights of the student."""
        path = self.out / f'{step}.pth'
        if path.exists():
            return path
        cfg = step_config(step, self.cfg, student_cfg, self.settings, weights, [self.names[i] for i in chosen])
        cfg.work_dir = str(self.out / step)
        cfg.experiment_name = step  # names the logs; by the time alone, two steps within a second share them
        if newest_checkpoint(cfg.work_dir) is not None:
            set_resume(cfg, 'newest')
        self.say(f'{step}: {cfg.train_cfg.max_iters} iterations')
        train(cfg, self.command, again='')
        last = load_from_local(str(newest_checkpoint(cfg.work_dir)))['state_dict']
        self._save(path, {name.removeprefix('student.'): value for name, value in last.items()
                          if name.startswith('student.')})
        return path


def text_of(cfg: Config) -> str:
    """A config as Python, without the fields that belong to one run."""
    cfg = copy.deepcopy(cfg)
    for name in ('launcher', 'work_dir', 'model_wrapper_cfg', 'load_from', 'resume'):
        cfg.pop(name, None)
    return config_text(cfg)


def step_config(step: str, cfg: Config, student_cfg: Config, settings: Settings, weights: Path,
                names: Sequence[str]) -> Config:
    """Config of the training of a step."""
    made = copy.deepcopy(student_cfg)
    made.model.backbone.pop('frozen_stages', None)
    made.merge_from_dict(copy.deepcopy(settings.options))  # the loader's, before its batches are counted
    teaching = dict(type=KINDS[step], teacher=model_config(cfg), student=model_config(made),
                    teacher_weights=settings.checkpoint, student_weights=str(weights))
    made.model = ConfigDict(**teaching, **(dict(blocks=list(names)) if step == ALIGN else {}))
    made.pop('data_preprocessor', None)
    max_iters = iterations(made, settings.epochs)
    made.train_cfg = ConfigDict(type='IterBasedTrainLoop', max_iters=max_iters, val_interval=max_iters)
    made.optim_wrapper = ConfigDict(type='OptimWrapper', **copy.deepcopy(OPTIMIZERS[step]))
    made.param_scheduler = schedule(max_iters)
    unused = ['custom_hooks', 'auto_scale_lr', 'load_from', 'test_dataloader', 'test_cfg', 'test_evaluator']
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
    """A linear warm-up of `WARM_UP`, then a cosine."""
    start = round(WARM_UP * max_iters)
    start = start if start > 1 else 0  # MMEngine's warm-up of one iteration would never end
    rise = [ConfigDict(type='LinearLR', start_factor=.01, by_epoch=False, begin=0, end=start)] if start else []
    return [*rise, ConfigDict(type='CosineAnnealingLR', eta_min=1e-6, by_epoch=False, begin=start, end=max_iters)]


def use_images(cfg: Config, folder: str) -> None:
    """Train on the images of a folder, prepared as those of the test.

    Raises:
        ValueError: there are no images, or the test data have no pipeline.
    """
    images_of(folder)
    tested = cfg.get('test_dataloader') or cfg.get('val_dataloader') or {}
    part = next(leaves(tested['dataset']))[0] if 'dataset' in tested else {}
    if not part.get('pipeline'):
        raise ValueError('--images: expected a config whose test data have a pipeline, which reads image files, got '
                         f'{part.get("type")}.')
    pipeline = [step for step in copy.deepcopy(part['pipeline']) if 'LoadAnnotations' not in step['type']]
    loader = cfg.train_dataloader
    for name in ('batch_sampler', 'sampler'):
        loader.pop(name, None)
    loader.sampler = dict(type='DefaultSampler', shuffle=True)
    loader.dataset = dict(type='mmflatten.UnlabelledImages', data_root=folder, pipeline=pipeline)
