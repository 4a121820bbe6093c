"""Accuracy of linearized models beside the same models trained from scratch, for docs/linearize.md.

    python tools/maintain/linearize_evidence.py TEACHER.py TEACHER.pth --epochs 16 --seeds 5 --out work_dirs/linearize

The arm `scratch, 4 times` has four tenths of the teacher's compute, and one seed; each other arm has a tenth. A pass
counts 4 forward passes in align and distil (the teacher's, and the student's with its backward pass) and 3 in training.
Runs that are done are kept. Prints a table of the accuracies.
"""
import argparse
import csv
import itertools
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from mmflatten.engine.setup import load_config
from mmflatten.studies.statistics import mean_interval
from mmflatten.text_table import align

ATTENTIONS = {
    'linear': 'LinearAttention:feature_map=relu',
    'focused': 'FocusedLinearAttention',
    'efficient': 'EfficientAttention',
    'agent': 'AgentAttention:num_agents=9',
    'inline': 'InLineAttention',
    'rala': 'RankAugmentedLinearAttention',
    'mala': 'MagnitudeAwareLinearAttention',
    'polaformer': 'PolarityAwareLinearAttention',
}
RATES = dict(linear=4e-3, focused=1e-3, efficient=2e-3, agent=4e-3, inline=4e-3, rala=2e-3, mala=4e-3,
             polaformer=1e-3)  # the best of studies/rates.yaml, for training from scratch
STEPS = {'swap': (), 'align': ('align',), 'distil': ('distil',), 'both': ('align', 'distil')}
SHARE, LONG = .1, 'scratch, 4 times'
SCRATCH = {'scratch': SHARE, LONG: 4 * SHARE}  # share of the teacher's epochs


class Arm(NamedTuple):
    attention: str
    arm: str
    seed: int

    @property
    def name(self) -> str:
        return f'{self.attention}_{self.arm.replace(", ", "_").replace(" ", "_")}_{self.seed}'


def arms(seeds: int) -> Iterator[Arm]:
    for seed, attention, arm in itertools.product(range(seeds), ATTENTIONS, [*STEPS, *SCRATCH]):
        if seed == 0 or arm != LONG:
            yield Arm(attention, arm, seed)


def run(arm: Arm, args: argparse.Namespace) -> dict:
    """Train and test one arm, or read its result."""
    folder = args.out / arm.name
    done = folder / 'done.json'
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        seeded = folder / 'seeded.py'
        seeded.write_text(f"_base_ = ['{args.config.resolve()}']\nrandomness = dict(seed={arm.seed})\n")
        log = open(folder / 'log.txt', 'a')
        if arm.arm in STEPS:
            steps = STEPS[arm.arm]
            passes = SHARE * args.epochs * 3 / 4 / max(1, len(steps))
            seconds = call(log, 'linearize', seeded, args.checkpoint, '--attention', ATTENTIONS[arm.attention],
                           '--epochs', str(passes), '--out', folder / 'linearized', '--steps', *steps)
            result = [folder / 'linearized' / name for name in ('linearized.py', 'linearized.pth')]
        else:
            call(log, 'linearize', seeded, args.checkpoint, '--attention', ATTENTIONS[arm.attention], '--out',
                 folder / 'linearized', '--steps')
            config = scratch(folder, SCRATCH[arm.arm] * args.epochs, RATES[arm.attention])
            seconds = call(log, 'train', config, '--work-dir', folder / 'train', '--resume')
            result = [config, Path((folder / 'train' / 'last_checkpoint').read_text())]
        call(log, 'test', *result, '--work-dir', folder / 'test', '--out', folder / 'test.json')
        accuracy = json.loads((folder / 'test.json').read_text())['metrics']['accuracy/top1']
        done.write_text(json.dumps(dict(arm._asdict(), accuracy=accuracy, cpu_seconds=round(seconds, 1))))
    return json.loads(done.read_text())


def scratch(folder: Path, epochs: float, rate: float) -> Path:
    """Config of the linearized model with random weights, for a number of epochs that need not be whole."""
    cfg = load_config(str(folder / 'linearized' / 'linearized.py'))
    loader = cfg.train_dataloader
    steps = round(epochs * abs(loader.dataset.indices) / loader.batch_size)
    path, start = folder / 'scratch.py', round(.05 * steps)
    path.write_text(f"""_base_ = ['{(folder / 'linearized' / 'linearized.py').resolve()}']
train_cfg = dict(_delete_=True, type='IterBasedTrainLoop', max_iters={steps}, val_interval={steps})
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=False, begin=0, end={start}),
    dict(type='CosineAnnealingLR', eta_min=1e-5, by_epoch=False, begin={start}, end={steps})]
optim_wrapper = dict(optimizer=dict(lr={rate}))
log_processor = dict(by_epoch=False)
""")
    return path


def call(log: object, *words: object) -> float:
    """Run `mmflatten` in one thread and return its CPU seconds.

    Raises:
        RuntimeError: it failed.
    """
    process = subprocess.Popen([sys.executable, '-m', 'mmflatten', *map(str, words)], stdout=log, stderr=log,
                               env={**os.environ, 'OMP_NUM_THREADS': '1'})
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f'mmflatten {" ".join(map(str, words))} failed: see {log.name}')
    return usage.ru_utime + usage.ru_stime


def results_table(rows: list[dict]) -> str:
    """Mean accuracy of every arm with its 95 % interval over seeds, a row for each attention."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        found[row['attention'], row['arm']].append(row['accuracy'])
    names = [*STEPS, *SCRATCH]
    return align([[attention, *(mean_interval(found[attention, arm]).text() for arm in names)]
                  for attention in ATTENTIONS], ['attention', *names], {0}, markdown=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', type=Path)
    parser.add_argument('checkpoint', type=Path)
    parser.add_argument('--epochs', type=int, required=True, help='of the training of the teacher')
    parser.add_argument('--seeds', type=int, default=5)
    parser.add_argument('--workers', type=int, default=2)
    parser.add_argument('--out', type=Path, default=Path('work_dirs/linearize'))
    args = parser.parse_args()
    with ThreadPoolExecutor(args.workers) as pool:
        rows = []
        for row in pool.map(lambda arm: run(arm, args), arms(args.seeds)):
            rows.append(row)
            print(row, flush=True)
    with open(args.out / 'results.csv', 'w', newline='') as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    print(results_table(rows))


if __name__ == '__main__':
    main()
