"""Accuracy of linearized models beside the same models trained from scratch, for
lab/docs/linearize.md.

    python lab/scripts/linearize_evidence.py TEACHER.py TEACHER.pth --epochs 8 --seeds 5 \\
        --out work_dirs/linearize
    python lab/scripts/linearize_evidence.py SWIN.py SWIN.pth --epochs 4 --blocks 0,1,2,3 \\
        --rate 2e-3 --out OTHER

Every arm has a share of the teacher's compute, a tenth by default; `scratch, 4 times` has four
times as much and one seed, and `swap` none. Arms are the steps of `linearize`, alone and both;
`labels`, where the swapped model (of softmax, the teacher itself) is trained as from scratch, at
distil's rate and without the teacher; and `scratch`. A pass counts 4 forward passes in align and
distil (the teacher's, and the student's with its backward pass) and 3 in training; of a detector,
align and distil run the backbone alone, so their passes cost less than they count. Runs that are
done are kept. Prints a table, and before it what the teacher has with and without the attention of
these blocks: where that is nearly the same, the table says nothing about attentions.
"""

import argparse
import hashlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
from mmengine.config import Config
from torch import Tensor

from mmflatten.checkpoints.loading import read_checkpoint
from mmflatten.config import build_model
from mmflatten.engine.setup import load_config
from mmflatten.measure.speed.operators import OPERATORS
from mmflatten.text import align
from mmflatten_lab.commands.linearize import blocks
from mmflatten_lab.linearize.step_configs import DISTIL, OPTIMIZERS, iterations, schedule
from mmflatten_lab.linearize.swap import blocks_of
from mmflatten_lab.studies.statistics import mean_interval

ATTENTIONS = {
    name: OPERATORS[name]
    for name in ('linear', 'focused', 'efficient', 'agent', 'inline', 'rala', 'mala', 'polaformer')
}
ATTENTIONS.update(linear='LinearAttention:feature_map=relu', agent='AgentAttention:num_agents=9')
# For training DeiT nano from scratch: the best after one epoch of the cell with the most similar
# local term and gate, in lab/studies/rates.yaml and lab/studies/rates_with_parts.yaml.
RATES = {**dict.fromkeys(ATTENTIONS, 2e-3), 'softmax': 4e-3, 'linear': 4e-3}
TEACHER = 'softmax'
STEPS = {'swap': (), 'align': ('align',), 'distil': ('distil',), 'both': ('align', 'distil')}
LABELS, SCRATCH, LONG = 'labels', 'scratch', 'scratch, 4 times'
TRAINED = {LABELS: 1, SCRATCH: 1, LONG: 4}  # times the compute of the other arms
ONCE = ('swap', LONG)  # are run with one seed


class Arm(NamedTuple):
    attention: str
    arm: str
    seed: int

    @property
    def name(self) -> str:
        return f'{self.attention}_{self.arm.replace(", ", "_").replace(" ", "_")}_{self.seed}'


def arms(seeds: int, attentions: list[str]) -> Iterator[Arm]:
    for seed, attention, arm in itertools.product(
        range(seeds), [TEACHER, *attentions], [*STEPS, *TRAINED]
    ):
        if (seed == 0 or arm not in ONCE) and (attention != TEACHER or arm in TRAINED):
            yield Arm(attention, arm, seed)


def run(arm: Arm, args: argparse.Namespace) -> dict:
    """Train and test one arm, or read its result."""
    folder = args.out / arm.name
    done = folder / 'done.json'
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        seeded = folder / 'seeded.py'
        seeded.write_text(
            f"_base_ = ['{args.config.resolve()}']\nrandomness = dict(seed={arm.seed})\n"
        )
        log = open(folder / 'log.txt', 'a')
        steps = STEPS.get(arm.arm, ())
        result = [seeded, args.checkpoint]
        if arm.attention != TEACHER:
            passes = args.share * args.epochs * 3 / 4 / max(1, len(steps))
            call(
                log,
                'linearize',
                seeded,
                args.checkpoint,
                '--attention',
                ATTENTIONS[arm.attention],
                '--blocks',
                args.blocks,
                '--epochs',
                str(passes),
                '--out',
                folder / 'linearized',
                '--steps',
                *steps,
            )
            result = [folder / 'linearized' / name for name in ('linearized.py', 'linearized.pth')]
        if arm.arm in TRAINED:
            weights = result[1] if arm.arm == LABELS else None
            config = trained(
                folder=folder,
                base=result[0],
                max_iters=args.iterations[arm.arm],
                rate=args.rate or RATES[arm.attention],
                weights=weights,
            )
            call(log, 'train', config, '--work-dir', folder / 'train', '--resume')
            result = [config, Path((folder / 'train' / 'last_checkpoint').read_text())]
        value = tested(log, folder, *result, args.metric)
        done.write_text(json.dumps({**arm._asdict(), args.metric: value}))
    return json.loads(done.read_text())


def trained(folder: Path, base: Path, max_iters: int, rate: float, weights: Path | None) -> Path:
    """Config of a training of some iterations; at distil's rate where it starts from weights."""
    path = folder / 'trained.py'
    if weights:
        rate = OPTIMIZERS[DISTIL]['optimizer']['lr']
    path.write_text(f"""_base_ = ['{base.resolve()}']
train_cfg = dict(_delete_=True, type='IterBasedTrainLoop', {max_iters=}, val_interval={max_iters})
param_scheduler = {[dict(part) for part in schedule(max_iters)]}
optim_wrapper = dict(optimizer=dict(lr={rate}))
log_processor = dict(by_epoch=False)
load_from = {str(weights.resolve()) if weights else None!r}
""")
    return path


def tested(log: object, folder: Path, config: Path, checkpoint: Path, metric: str) -> float:
    """Value of the metric on the test images."""
    call(
        log,
        'test',
        config,
        checkpoint,
        '--work-dir',
        folder / 'test',
        '--out',
        folder / 'test.json',
    )
    return json.loads((folder / 'test.json').read_text())['metrics'][metric]


def call(log: object, *words: object) -> None:
    """Run `mmflatten` in one thread.

    Raises:
        RuntimeError: it failed.
    """
    process = subprocess.run(
        [sys.executable, '-m', 'mmflatten', *map(str, words)],
        stdout=log,
        stderr=log,
        env={**os.environ, 'OMP_NUM_THREADS': '1'},
    )
    if process.returncode:
        raise RuntimeError(f'mmflatten {" ".join(map(str, words))} failed: see {log.name}')


def without_attention(cfg: Config, checkpoint: Path, numbers: str | list[int]) -> dict[str, Tensor]:
    """Weights of the teacher whose blocks of these numbers, or all, have an attention that answers
    0.
    """
    names = list(blocks_of(build_model(cfg)))
    chosen = names if isinstance(numbers, str) else [names[number] for number in numbers]
    weights = read_checkpoint(str(checkpoint))['state_dict']
    attentions = tuple(f'backbone.{block}.attn.' for block in chosen)
    for name, value in weights.items():
        if '.proj.' in name and name.startswith(attentions):
            value.zero_()
    return weights


def results_table(runs: pd.DataFrame, metric: str) -> str:
    """Mean of every arm with its 95 % interval over seeds, a row for each attention."""
    texts = runs.groupby(['attention', 'arm'], sort=False)[metric].agg(
        lambda values: mean_interval(values).text()
    )
    table = texts.unstack(sort=False).reindex(columns=[*STEPS, *TRAINED]).fillna('').reset_index()
    return align(table.to_numpy().tolist(), list(table), {0}, markdown=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('config', type=Path)
    parser.add_argument('checkpoint', type=Path)
    parser.add_argument('--epochs', type=int, required=True, help='of the training of the teacher')
    parser.add_argument(
        '--share', type=float, default=0.1, help="of the teacher's compute, for each arm"
    )
    parser.add_argument('--seeds', type=int, default=5)
    parser.add_argument('--attentions', nargs='+', choices=ATTENTIONS, default=[*ATTENTIONS])
    parser.add_argument('--blocks', default='all', help='that get another attention')
    parser.add_argument(
        '--rate', type=float, help="for training from scratch (default: RATES, DeiT nano's)"
    )
    parser.add_argument('--metric', default='accuracy/top1')
    parser.add_argument('--workers', type=int, default=2)
    parser.add_argument('--out', type=Path, default=Path('work_dirs/linearize'))
    return parser.parse_args()


def main() -> None:
    args = parse_arguments()
    cfg = load_config(str(args.config))
    teacher = args.out / 'teacher'
    teacher.mkdir(parents=True, exist_ok=True)
    facts = dict(
        sha256=hashlib.sha256(args.checkpoint.read_bytes()).hexdigest(),
        config=str(args.config.resolve()),
        epochs=args.epochs,
        share=args.share,
        blocks=args.blocks,
        rate=args.rate,
        metric=args.metric,
    )
    done = teacher / 'done.json'
    if done.exists():
        known = json.loads(done.read_text())
        if known != known | facts:
            raise ValueError(
                f'--out: {args.out} has results of other options, {known}. Name another folder.'
            )
    else:
        with open(teacher / 'log.txt', 'w') as log:
            without = teacher / 'without.pth'
            weights = without_attention(cfg, args.checkpoint, blocks(args.blocks))
            torch.save(dict(state_dict=weights), without)
            known = {
                **facts,
                args.metric: tested(log, teacher, args.config, args.checkpoint, args.metric),
                'without attention': tested(log, teacher, args.config, without, args.metric),
            }
        done.write_text(json.dumps(known))
    print('teacher:', known)
    args.iterations = {
        arm: iterations(cfg, times * args.share * args.epochs) for arm, times in TRAINED.items()
    }
    with ThreadPoolExecutor(args.workers) as pool:
        rows = []
        for row in pool.map(lambda arm: run(arm, args), arms(args.seeds, args.attentions)):
            rows.append(row)
            print(row, flush=True)
    runs = pd.DataFrame(rows)
    runs.to_csv(args.out / 'results.csv', index=False)
    print(results_table(runs, args.metric))


if __name__ == '__main__':
    main()
