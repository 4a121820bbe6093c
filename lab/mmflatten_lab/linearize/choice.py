"""Choose the blocks whose attention is replaced, with the smallest loss for a given time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.registry import DefaultScope
from torch import Tensor, nn

from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.engine.runner import Runner
from mmflatten.measure.speed.timing import Subject, measure
from mmflatten.untrusted.csv_files import read_csv, write_csv
from mmflatten.untrusted.json_files import read_json
from mmflatten_lab.linearize.models import calls, is_classifier, relative_error
from mmflatten_lab.linearize.swap import blocks_of

IMAGES = 512  # for the loss of a block
SECONDS = 1.0  # of timing for each block


class ParetoPoint(NamedTuple):
    """Pareto-optimal choice of blocks with its predicted loss and its time relative to the
    teacher's.
    """

    blocks: tuple[int, ...]
    loss: float
    time: float


@dataclass(frozen=True)
class Costs:
    """Measurements of each block, in order.

    Attributes:
        losses: error of the outputs if only this block is swapped and aligned.
        before, after: seconds of the block with the old and the new attention.
        whole: seconds of the teacher's backbone.
    """

    losses: Sequence[float]
    before: Sequence[float]
    after: Sequence[float]
    whole: float

    def time(self, blocks: Sequence[int]) -> float:
        """Predicted time of the backbone with these blocks swapped, relative to the teacher's."""
        change = sum(self.after[block] - self.before[block] for block in blocks)
        return 1 + change / self.whole


def measure_times(
    path: Path, teacher: nn.Module, student: nn.Module, size: Sequence[int], budget: float
) -> None:
    """Measure the time of all blocks with both attentions for an image of `size` (H, W), and write
    it to a file.

    Raises:
        ValueError: no choice meets the budget.
    """
    before, after, whole = block_times(
        teacher.to(get_device()), student.to(get_device()).eval(), (size[0], size[1])
    )
    lossless = Costs([0.0] * len(before), before=before, after=after, whole=whole)
    best_within_budget(pareto_set(lossless), budget)
    content = json.dumps(dict(before=before, after=after, whole=whole))
    with atomic_write(path) as aside:
        aside.write_text(content, encoding='utf-8')


def choose(
    out: Path,
    cfg: Config,
    teacher: nn.Module,
    student: nn.Module,
    budget: float,
    log: Callable[[str], None],
) -> None:
    """Measure the losses of all blocks, and write the Pareto set and the best choice within the
    budget.

    Args:
        out: folder with `times.json` of `measure_times`; `pareto.csv` and `chosen.csv` are written
            there.
        student: with all blocks swapped and aligned.
    """
    times = read_json(out / 'times.json')
    losses = sensitivities(cfg, teacher.to(get_device()), student.to(get_device()).eval(), log)
    points = pareto_set(Costs(losses, **times))
    write(points, out / 'pareto.csv')
    best = best_within_budget(points, budget)
    write([best], out / 'chosen.csv')
    blocks = ','.join(map(str, best.blocks)) or 'none'
    log(f'blocks {blocks}: {best.time:.2f} of the time, loss {best.loss:.3g}')


def read_choice(out: Path) -> list[int]:
    """Return the blocks that `choose` wrote."""
    return [int(number) for number in read_csv(out / 'chosen.csv')[0]['blocks'].split()]


def pareto_set(costs: Costs) -> list[ParetoPoint]:
    """Pareto-optimal choices, starting with the slowest and most exact. Losses and times of blocks
    are added up.
    """
    points = [ParetoPoint((), 0.0, 1.0)]
    for block in range(len(costs.losses)):
        change = costs.time([block]) - 1
        candidates = list(points)
        for point in points:
            blocks = (*point.blocks, block)
            loss = point.loss + costs.losses[block]
            candidates.append(ParetoPoint(blocks, loss, point.time + change))
        candidates.sort(key=lambda point: (point.loss, point.time))
        points = []
        for point in candidates:
            if not points or point.time < points[-1].time:
                points.append(point)
    return points


def best_within_budget(points: Sequence[ParetoPoint], budget: float) -> ParetoPoint:
    """Return the point with the smallest loss within the budget.

    Raises:
        ValueError: no point is within the budget.
    """
    for point in points:
        if point.time <= budget:
            return point
    raise ValueError(
        f'--budget: expected at least {points[-1].time:.2f}, the smallest relative time that these'
        f' blocks can reach, got {budget}.'
    )


@torch.no_grad()
def sensitivities(
    cfg: Config, teacher: nn.Module, student: nn.Module, log: Callable[[str], None]
) -> list[float]:
    """Error of the outputs if only one block is swapped, for each block, on the first `IMAGES`
    images.

    For classifiers, the error is the Kullback-Leibler divergence from the teacher's probabilities;
    for other models, it is the squared error of the backbone's maps relative to the teacher's,
    averaged over the maps.
    """
    loader_cfg = cfg.get('val_dataloader') or cfg.train_dataloader
    with DefaultScope.overwrite_default_scope(cfg.get('default_scope') or 'mmengine'):
        loader = Runner.build_dataloader(loader_cfg, seed=0)
    names = list(blocks_of(teacher))
    totals = [0.0] * len(names)
    seen = 0
    for batch in loader:
        inputs = teacher.data_preprocessor(batch)['inputs']
        expected = outputs(teacher, inputs)
        for number, name in enumerate(names):
            with swapped(teacher, student, name):
                totals[number] += len(inputs) * error(teacher, outputs(teacher, inputs), expected)
        seen += len(inputs)
        log(f'sensitivity: {seen} images')
        if seen >= IMAGES:
            break
    return [total / seen for total in totals]


def outputs(model: nn.Module, inputs: Tensor) -> tuple[Tensor, ...]:
    if is_classifier(model):
        return (model(inputs, mode='tensor').float().log_softmax(-1),)
    return tuple(model.backbone(inputs))


def error(model: nn.Module, ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    if is_classifier(model):
        divergence = nn.functional.kl_div(
            ours[0], theirs[0], reduction='batchmean', log_target=True
        )
        return float(divergence)
    errors = [relative_error(one, other, other) for one, other in zip(ours, theirs)]
    return float(sum(errors) / len(theirs))


@contextmanager
def swapped(teacher: nn.Module, student: nn.Module, name: str) -> Iterator[None]:
    """Replace a block of the teacher by the student's block."""
    parent, _, key = name.rpartition('.')
    blocks = teacher.backbone.get_submodule(parent)._modules
    before, blocks[key] = blocks[key], student.backbone.get_submodule(name)
    try:
        yield
    finally:
        blocks[key] = before


@torch.no_grad()
def block_times(
    teacher: nn.Module, student: nn.Module, size: tuple[int, int]
) -> tuple[list[float], list[float], float]:
    """Time of each block with the old and new attention, and of the teacher's backbone, for an
    image of this size.
    """
    device = str(get_device())
    image = torch.randn(1, 3, *size, device=device)
    names = list(blocks_of(teacher))
    inputs = calls(teacher, image, names)

    def subject(block: nn.Module, name: str) -> Subject:
        x_BNC, hw_shape, _ = inputs[name]

        def call() -> Tensor:
            with torch.inference_mode():
                return block(x_BNC, hw_shape)

        return Subject(name, call)

    def whole() -> object:
        with torch.inference_mode():
            return teacher.backbone(image)

    subjects = [Subject('backbone', whole)]
    for model in (teacher, student):
        blocks = blocks_of(model)
        subjects += [subject(blocks[name], name) for name in names]
    times = list(map(min, measure(subjects, seconds=SECONDS, device=device)))
    first_new = 1 + len(names)
    return times[1:first_new], times[first_new:], times[0]


def write(points: Sequence[ParetoPoint], path: Path) -> None:
    rows = [(' '.join(map(str, point.blocks)), point.loss, point.time) for point in points]
    with atomic_write(path) as aside:
        write_csv(aside, ('blocks', 'loss', 'time'), rows)
