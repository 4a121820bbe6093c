"""Check what `mmflatten linearize --blocks auto` predicts: times of random choices, and all choices of a small model.

    python lab/scripts/linearize_choices.py CONFIG --attention AgentAttention --size 800 1280
    python lab/scripts/linearize_choices.py CONFIG --attention AgentAttention --size 112 112 --folder DIR

The first measures 20 random choices beside the teacher. The second, for a folder of `mmflatten linearize` whose blocks
are aligned, measures the time and the error of every choice, and tells for some budgets how much more the predicted
choice loses than the best one.
"""
import argparse
import itertools
import json
import random
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from mmflatten.checkpoints.loading import load_from_local
from mmflatten.config import build_model
from mmflatten.engine.runner import Runner
from mmflatten.engine.setup import load_config
from mmflatten.measure.speed.operators import mixer_config
from mmflatten.measure.speed.timing import Subject, measure
from mmflatten_lab.linearize.choice import (
    Costs,
    block_times,
    error,
    front,
    outputs,
    sensitivities,
    swapped,
    within,
)
from mmflatten_lab.linearize.steps import Linearization, Settings
from mmflatten_lab.linearize.swap import blocks_of, build_swapped, swapped_config

CHOICES = 20
BUDGETS = (.95, .9, .85, .8, .75, .7)


class Chosen:
    """Context in which some blocks of the teacher are the student's."""

    def __init__(self, teacher: nn.Module, student: nn.Module, blocks: tuple[int, ...]) -> None:
        names = list(blocks_of(teacher))
        self.stack, self.swaps = ExitStack(), [swapped(teacher, student, names[number]) for number in blocks]

    def __enter__(self) -> None:
        for swap in self.swaps:
            self.stack.enter_context(swap)

    def __exit__(self, *_: object) -> None:
        self.stack.close()


@torch.inference_mode()
def ratio(teacher: nn.Module, student: nn.Module, blocks: tuple[int, ...], image: Tensor, seconds: float) -> float:
    """Time of the backbone with these blocks swapped, as a share of the teacher's, measured side by side."""

    def call(chosen: tuple[int, ...]) -> object:
        with Chosen(teacher, student, chosen):
            return teacher.backbone(image)

    subjects = [Subject(str(chosen), partial(call, chosen)) for chosen in ((), blocks)]
    before, after = (min(times) for times in measure(subjects, seconds=seconds))
    return after / before


def check_times(teacher: nn.Module, student: nn.Module, costs: Costs, image: Tensor, seconds: float) -> None:
    number, picked = len(costs.before), random.Random(0)
    worst = 0.
    for _ in range(CHOICES):
        blocks = tuple(sorted(picked.sample(range(number), picked.randint(1, number))))
        predicted, measured = costs.time(blocks), ratio(teacher, student, blocks, image, seconds)
        worst = max(worst, abs(predicted / measured - 1))
        print(f'{" ".join(map(str, blocks)):40} predicted {predicted:.3f} measured {measured:.3f}', flush=True)
    print(f'largest error: {100 * worst:.1f} %')


@torch.no_grad()
def check_choices(work: Linearization, costs: Costs, image: Tensor, seconds: float) -> None:
    teacher, student = work.teacher, work.student
    batch = next(iter(Runner.build_dataloader(work.cfg.val_dataloader, seed=0)))
    inputs = teacher.data_preprocessor(batch)['inputs']
    expected, found = outputs(teacher, inputs), {}
    number = len(work.names)
    for blocks in itertools.chain.from_iterable(itertools.combinations(range(number), k) for k in range(number + 1)):
        with Chosen(teacher, student, blocks):
            loss = error(teacher, outputs(teacher, inputs), expected)
        found[blocks] = loss, ratio(teacher, student, blocks, image, seconds)
    points = front(costs)
    for budget in BUDGETS:
        feasible = [loss for loss, time in found.values() if time <= budget]
        try:
            blocks = within(points, budget).blocks
        except ValueError as problem:
            print(f'budget {budget}: {problem}')
            continue
        loss, time = found[tuple(sorted(blocks))]
        best = f'{min(feasible):.4g}' if feasible else 'none'
        print(f'budget {budget}: blocks {blocks}, measured time {time:.3f}, loss {loss:.4g}, best loss {best}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config')
    parser.add_argument('--attention', required=True)
    parser.add_argument('--size', type=int, nargs=2, required=True)
    parser.add_argument('--folder', type=Path)
    parser.add_argument('--seconds', type=float, default=2., help='time of each of the two models in a comparison')
    args = parser.parse_args()
    image = torch.randn(1, 3, *args.size)
    if args.folder is None:
        cfg = load_config(args.config)
        teacher = build_model(cfg).eval()
        chosen = range(len(blocks_of(teacher)))
        student = build_swapped(swapped_config(cfg, teacher, mixer_config(args.attention), chosen), teacher, chosen)
        check_times(teacher, student, Costs([], *block_times(teacher, student.eval(), tuple(args.size))), image,
                    args.seconds)
        return
    written = json.loads((args.folder / 'settings.json').read_text())
    settings = Settings(**{name: written[name] for name in Settings.__dataclass_fields__})
    work = Linearization(load_config(settings.config), settings, args.folder, print)
    work.student.load_state_dict(load_from_local(str(args.folder / 'align.pth'))['state_dict'])
    work.student.eval()
    costs = Costs(sensitivities(work.cfg, work.teacher, work.student, work.say),
                  *block_times(work.teacher, work.student, tuple(args.size)))
    check_choices(work, costs, image, args.seconds)


if __name__ == '__main__':
    main()
