"""Choose the blocks that get another attention: the least loss for a given time."""
from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.registry import DefaultScope
from torch import Tensor, nn

from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.engine.runner import Runner
from mmflatten.measure.speed.timing import Subject, measure
from mmflatten_lab.linearize.models import calls, is_classifier, relative_error
from mmflatten_lab.linearize.swap import blocks_of

IMAGES = 512  # that judge a block
SECONDS = 1.  # of timing for each block


class Front(NamedTuple):
    """A choice that no other beats in both: its blocks, the predicted loss and the share of the teacher's time."""

    blocks: tuple[int, ...]
    loss: float
    time: float


@dataclass(frozen=True)
class Costs:
    """Measurements of each block, in order.

    Attributes:
        losses: error of the outputs with that block alone swapped and aligned.
        before, after: seconds of the block with the old and the new attention.
        whole: seconds of the teacher's backbone.
    """

    losses: Sequence[float]
    before: Sequence[float]
    after: Sequence[float]
    whole: float

    def time(self, blocks: Sequence[int]) -> float:
        """Predicted time of the backbone with these blocks swapped, as a share of the teacher's."""
        return 1 + sum(self.after[i] - self.before[i] for i in blocks) / self.whole


def measure_times(path: Path, teacher: nn.Module, student: nn.Module, size: Sequence[int], budget: float) -> None:
    """Measure all blocks with both attentions and write their times, before anything is learned.

    Args:
        size: height and width of the image.

    Raises:
        ValueError: no choice meets the budget.
    """
    before, after, whole = block_times(teacher.to(get_device()), student.to(get_device()).eval(), (size[0], size[1]))
    within(front(Costs([0.] * len(before), before, after, whole)), budget)
    with atomic_write(path) as aside:
        aside.write_text(json.dumps(dict(before=before, after=after, whole=whole)), encoding='utf-8')


def choose(out: Path, cfg: Config, teacher: nn.Module, student: nn.Module, budget: float,
           say: Callable[[str], None]) -> None:
    """Measure the losses of all blocks, and write the front and the choice within the budget that loses least.

    Args:
        out: folder with `times.json` of `measure_times`; `front.png`, `front.csv` and `chosen.csv` are written there.
        student: with all blocks swapped and aligned.
    """
    times = json.loads((out / 'times.json').read_text(encoding='utf-8'))
    losses = sensitivities(cfg, teacher.to(get_device()), student.to(get_device()).eval(), say)
    points = front(Costs(losses, **times))
    draw(points, budget).savefig(out / 'front.png', dpi=100)
    write(points, out / 'front.csv')
    best = within(points, budget)
    write([best], out / 'chosen.csv')
    say(f'blocks {",".join(map(str, best.blocks)) or "none"}: {best.time:.2f} of the time, loss {best.loss:.3g}')


def read_choice(out: Path) -> list[int]:
    """Return the blocks that `choose` wrote."""
    with open(out / 'chosen.csv', newline='', encoding='utf-8') as file:
        row = next(csv.DictReader(file))
    return [int(number) for number in row['blocks'].split()]


def front(costs: Costs) -> list[Front]:
    """All choices that no other beats, from the slowest and most exact on; losses and times of blocks add up."""
    points = [Front((), 0., 1.)]
    for block in range(len(costs.losses)):
        more = [Front((*point.blocks, block), point.loss + costs.losses[block], point.time + costs.time([block]) - 1)
                for point in points]
        ordered = sorted([*points, *more], key=lambda point: (point.loss, point.time))
        points = []
        for point in ordered:
            if not points or point.time < points[-1].time:
                points.append(point)
    return points


def within(points: Sequence[Front], budget: float) -> Front:
    """The point of least loss within the budget.

    Raises:
        ValueError: there is none.
    """
    for point in points:
        if point.time <= budget:
            return point
    raise ValueError(f'--budget: expected at least {points[-1].time:.2f}, the smallest share of the time that these '
                     f'blocks can reach, got {budget}.')


@torch.no_grad()
def sensitivities(cfg: Config, teacher: nn.Module, student: nn.Module, say: Callable[[str], None]) -> list[float]:
    """Error of the outputs with each block alone swapped, on the first batches that have `IMAGES` images together.

    Of a classifier the Kullback-Leibler divergence of its probabilities from the teacher's, of another model the
    squared error of its backbone's maps relative to them, averaged over the maps.
    """
    loader_cfg = cfg.get('val_dataloader') or cfg.train_dataloader
    with DefaultScope.overwrite_default_scope(cfg.get('default_scope') or 'mmengine'):
        loader = Runner.build_dataloader(loader_cfg, seed=0)
    names = list(blocks_of(teacher))
    totals, seen = [0.] * len(names), 0
    for batch in loader:
        inputs = teacher.data_preprocessor(batch)['inputs']
        expected = outputs(teacher, inputs)
        for number, name in enumerate(names):
            with swapped(teacher, student, name):
                totals[number] += len(inputs) * error(teacher, outputs(teacher, inputs), expected)
        seen += len(inputs)
        say(f'sensitivity: {seen} images')
        if seen >= IMAGES:
            break
    return [total / seen for total in totals]


def outputs(model: nn.Module, inputs: Tensor) -> tuple[Tensor, ...]:
    if is_classifier(model):
        return (model(inputs, mode='tensor').float().log_softmax(-1),)
    return tuple(model.backbone(inputs))


def error(model: nn.Module, ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    if is_classifier(model):
        return float(nn.functional.kl_div(ours[0], theirs[0], reduction='batchmean', log_target=True))
    return float(sum(relative_error(one, other, other) for one, other in zip(ours, theirs)) / len(theirs))


class swapped:
    """Context in which a block of the teacher is the student's."""

    def __init__(self, teacher: nn.Module, student: nn.Module, name: str) -> None:
        parent, _, self.key = name.rpartition('.')
        self.place = teacher.backbone.get_submodule(parent)
        self.ours, self.theirs = self.place._modules[self.key], student.backbone.get_submodule(name)

    def __enter__(self) -> None:
        self.place._modules[self.key] = self.theirs

    def __exit__(self, *_: object) -> None:
        self.place._modules[self.key] = self.ours


@torch.no_grad()
def block_times(teacher: nn.Module, student: nn.Module,
                size: tuple[int, int]) -> tuple[list[float], list[float], float]:
    """Seconds of each block before and after, and of the teacher's backbone, at one image of this size."""
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

    subjects = [subject(blocks_of(model)[name], name) for model in (teacher, student) for name in names]
    times = [min(seconds) for seconds in measure([Subject('backbone', whole), *subjects],
                                                     seconds=SECONDS, device=device)]
    return times[1:len(names) + 1], times[len(names) + 1:], times[0]


def write(points: Sequence[Front], path: Path) -> None:
    with atomic_write(path) as aside, open(aside, 'w', newline='', encoding='utf-8') as file:
        rows = csv.writer(file)
        rows.writerow(['blocks', 'loss', 'time'])
        rows.writerows([' '.join(map(str, point.blocks)), repr(point.loss), repr(point.time)] for point in points)


def draw(points: Sequence[Front], budget: float) -> Figure:
    """Loss over time of all choices that no other beats; the number of swapped blocks is the colour."""
    figure = Figure(figsize=(6, 4), layout='constrained')
    axes = figure.subplots()
    dots = axes.scatter([point.time for point in points], [point.loss for point in points], s=14,
                        c=[len(point.blocks) for point in points], cmap='viridis')
    figure.colorbar(dots, label='swapped blocks')
    axes.axvline(budget, color='C3', linestyle=':', label='budget')
    axes.set(xlabel="time of the backbone / teacher's", ylabel='sum of the losses of the blocks')
    axes.legend()
    return figure
