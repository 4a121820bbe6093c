"""Steps of `mmflatten linearize`: swap, align, choose, distil. Each writes a file, and is skipped
if it exists.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from mmengine.config import Config
from mmengine.dist import barrier, is_main_process
from mmengine.runner import save_checkpoint
from torch import Tensor

from mmflatten.checkpoints.loading import load_weights, read_checkpoint
from mmflatten.checkpoints.run_files import atomic_write, newest_checkpoint
from mmflatten.config import build_model, require_parts
from mmflatten.engine.setup import set_resume, train
from mmflatten.untrusted.files import read_bytes
from mmflatten.untrusted.json_files import read_json
from mmflatten_lab.linearize.choice import choose, measure_times, read_choice
from mmflatten_lab.linearize.step_configs import (
    ALIGN,
    DISTIL,
    Settings,
    step_config,
    text_of,
    use_images,
)
from mmflatten_lab.linearize.swap import blocks_of, build_swapped, swapped_config


class Linearization:
    """Linearization of a model: teacher, student, folder of the results, and steps.

    Args:
        cfg: config of the teacher, from `load_config`.
        command: command line that continues after an interruption.

    Raises:
        ValueError: the blocks do not exist, or `out` has results of other settings.
        CheckpointError: the checkpoint does not fit.
    """

    def __init__(
        self,
        cfg: Config,
        settings: Settings,
        out: Path,
        log: Callable[[str], None],
        command: Sequence[str] = (),
    ) -> None:
        require_parts(cfg, 'model', 'train_dataloader')
        self.cfg = cfg
        self.settings = settings
        self.out = out
        self.log = log
        self.command = command
        self.teacher = build_model(cfg).eval()
        checkpoint = read_checkpoint(settings.checkpoint)
        load_weights(self.teacher, checkpoint, settings.checkpoint)
        self.meta = {}
        meta = checkpoint.get('meta')
        if isinstance(meta, dict) and 'dataset_meta' in meta:
            self.meta['dataset_meta'] = meta['dataset_meta']
        self.names = list(blocks_of(self.teacher))
        self.candidates = settings.blocks
        if isinstance(settings.blocks, str):
            self.candidates = list(range(len(self.names)))
        unknown = [number for number in self.candidates if number >= len(self.names)]
        if unknown or not self.candidates:
            raise ValueError(
                f'--blocks: expected numbers from 0 to {len(self.names) - 1}, got '
                f'{", ".join(map(str, unknown)) or "none"}.'
            )
        self.student_cfg = swapped_config(cfg, self.teacher, settings.attention, self.candidates)
        self.student = build_swapped(self.student_cfg, self.teacher, self.candidates)
        if settings.images is not None:
            use_images(self.student_cfg, settings.images)
        self._claim()

    def _claim(self) -> None:
        """Write the settings, or compare them with those of earlier results."""
        path = self.out / 'settings.json'
        mine = json.loads(json.dumps(asdict(self.settings)))
        teacher = hashlib.sha256(text_of(self.cfg).encode())
        file = Path(self.settings.checkpoint)
        if file.is_file():
            teacher.update(read_bytes(file, sys.maxsize))
        mine['sha256 of the teacher'] = teacher.hexdigest()
        if path.exists():
            before = read_json(path)
            changed = [name for name in mine if mine[name] != before.get(name)]
            if changed:
                raise ValueError(
                    f'--out: {self.out} has results with {changed[0]} {before.get(changed[0])}, got'
                    f' {mine[changed[0]]}. Name another folder or remove this one.'
                )
        elif is_main_process():
            with atomic_write(path) as aside:
                aside.write_text(json.dumps(mine, indent=1), encoding='utf-8')
        barrier()

    def run(self) -> Path:
        """Run all steps. Returns the checkpoint of the result, whose config is in the same folder.

        Raises:
            ValueError: no choice of blocks meets the budget.
        """
        weights = self.out / 'swap.pth'
        self._save(weights, self.student.state_dict())
        auto = self.settings.blocks == 'auto'
        budget = self.settings.budget or 1.0
        times = self.out / 'times.json'
        if auto and is_main_process() and not times.exists():
            self.log(f'measuring {len(self.names)} blocks')
            measure_times(
                times,
                teacher=self.teacher,
                student=self.student,
                size=self.settings.size or (),
                budget=budget,
            )
        barrier()
        if ALIGN in self.settings.steps:
            weights = self._learn(ALIGN, self.student_cfg, weights, self.candidates)
        chosen = self.candidates
        if auto:
            if is_main_process() and not (self.out / 'chosen.csv').exists():
                self.student.load_state_dict(read_checkpoint(str(weights))['state_dict'])
                choose(
                    self.out,
                    cfg=self.student_cfg,
                    teacher=self.teacher,
                    student=self.student,
                    budget=budget,
                    log=self.log,
                )
            barrier()
            chosen = read_choice(self.out)
            weights = self._assemble(chosen, weights)
        if DISTIL in self.settings.steps:
            weights = self._learn(DISTIL, self._config_with(chosen), weights, chosen)
        final = self.out / 'linearized.pth'
        if is_main_process():
            with atomic_write(final) as aside:
                aside.write_bytes(read_bytes(weights, sys.maxsize))
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
        """Save the teacher's weights, with the aligned attentions in the chosen blocks."""
        path = self.out / 'chosen.pth'
        student = build_swapped(self._config_with(chosen), self.teacher, chosen)
        prefixes = tuple(f'backbone.{self.names[number]}.' for number in chosen)
        aligned_weights = read_checkpoint(str(aligned))['state_dict']
        weights = dict(student.state_dict())
        for name in weights:
            if name.startswith(prefixes):
                weights[name] = aligned_weights[name]
        self._save(path, weights)
        return path

    def _save(self, path: Path, weights: Mapping[str, Tensor]) -> None:
        if is_main_process() and not path.exists():
            with atomic_write(path) as aside:
                save_checkpoint(dict(state_dict=dict(weights), meta=self.meta), str(aside))
        barrier()

    def _learn(self, step: str, student_cfg: Config, weights: Path, chosen: Sequence[int]) -> Path:
        """Run or resume one step, and save the weights of the student."""
        path = self.out / f'{step}.pth'
        if path.exists():
            return path
        cfg = step_config(
            step,
            cfg=self.cfg,
            student_cfg=student_cfg,
            settings=self.settings,
            weights=weights,
            names=[self.names[number] for number in chosen],
        )
        cfg.work_dir = str(self.out / step)
        # The name of the logs. By the time alone, two steps within a second would share them.
        cfg.experiment_name = step
        if newest_checkpoint(cfg.work_dir) is not None:
            set_resume(cfg, 'newest')
        self.log(f'{step}: {cfg.train_cfg.max_iters} iterations')
        train(cfg, self.command, again='')
        last = read_checkpoint(str(newest_checkpoint(cfg.work_dir)))['state_dict']
        student = {}
        for name, value in last.items():
            if name.startswith('student.'):
                student[name.removeprefix('student.')] = value
        self._save(path, student)
        return path
