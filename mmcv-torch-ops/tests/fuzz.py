"""Call every operator with hostile numbers and sizes. Count the calls that crash, run too long or
need too much memory.

    python tests/fuzz.py [--cases 60] [--seed 0] [--operator roi_align] [--list]

The calls run in a child process, which is replaced when a signal ends it. A call holds if it
returns or raises an ordinary Python exception within `SECONDS` and `MEMORY`. The exit status is 1
if a call was lost.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'src'))

import torch  # noqa: E402
from cases import OPERATORS, Draw  # noqa: E402

import mmcv_torch_ops.extension as extension  # noqa: E402

SECONDS = 10  # of one call
MEMORY = 2**31  # of one call, on top of what the process has when it begins
HOSTILE = (
    float('nan'),
    float('inf'),
    -float('inf'),
    3.4e38,
    -3.4e38,
    1e30,
    -1e30,
    1e18,
    1e9,
    -1e9,
    2.0**31,
    1e7,
    1e6,
    -1e6,
    1e5,
    1e4,
    -1.0,
    -0.0,
    0.0,
    1e-30,
    1e-45,
)
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


class HostileDraw(Draw):
    """Random arguments of which some tensors have some, or only, hostile numbers. Some have no
    rows.
    """

    def _poisoned(self, tensor: torch.Tensor) -> torch.Tensor:
        kind = self.random.randint(4)
        if not tensor.numel() or kind == 0:
            return tensor
        fraction = (0.05, 0.3, 1.0)[kind - 1]
        flat = tensor.flatten()
        values = torch.tensor(self.random.choice(HOSTILE, len(flat))).to(flat.dtype)
        chosen = torch.from_numpy(self.random.random_sample(len(flat)) < fraction)
        if self.random.randint(2):
            values = values[:1].expand(len(flat))  # one number everywhere
        return torch.where(chosen, values, flat).view(tensor.shape)

    def uniform(self, *shape: int, low: float = 0, high: float = 1) -> torch.Tensor:
        return self._poisoned(super().uniform(*shape, low=low, high=high))

    def normal(self, *shape: int) -> torch.Tensor:
        return self._poisoned(super().normal(*shape))

    def scores(self, number: int) -> torch.Tensor:
        return self._poisoned(super().scores(number))

    def integers(self, high: int, *shape: int) -> torch.Tensor:
        drawn = super().integers(high, *shape)
        moved = int(self.random.choice((-1, -high, high, 2**31, -(2**40))))
        return drawn if self.random.randint(4) else drawn + moved

    def integer(self, low: int, high: int) -> int:
        return super().integer(low, high) if self.random.randint(12) else self.one_of(0, 1)

    def threshold(self) -> float:
        return float(self.random.choice((*HOSTILE, 0.5)))


def call(operator: str, seed: int) -> str:
    """Call an operator once. Returns 'held' or 'memory'."""
    try:
        signal.alarm(SECONDS)
        OPERATORS[operator].make(HostileDraw(seed, DTYPES[seed % len(DTYPES)]))(extension)
    except MemoryError:
        return 'memory'
    except Exception as error:
        out_of_memory = "can't allocate memory" in str(error) or 'bad_alloc' in str(error)
        return 'memory' if out_of_memory else 'held'
    return 'held'


def call_all(operator: str, seeds: list[int], pipe: int) -> None:
    """Call an operator with all seeds, in a process of limited memory, and write a line for each to
    a pipe.
    """
    used = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for seed in seeds:
        os.write(pipe, f'{call(operator, seed)}\n'.encode())


def outcomes_of(operator: str, seeds: list[int]) -> list[str]:
    """Return for each seed 'held', or how the call was lost: 'memory', 'time' or the name of a
    signal.
    """
    outcomes: list[str] = []
    while len(outcomes) < len(seeds):
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            try:
                call_all(operator, seeds[len(outcomes) :], writer)
            finally:
                os._exit(0)
        os.close(writer)
        with open(reader) as lines:
            outcomes += lines.read().split()
        status = os.waitpid(process, 0)[1]
        if len(outcomes) < len(seeds):
            number = os.WTERMSIG(status)
            outcomes.append('time' if number == signal.SIGALRM else f'signal {number}')
    return outcomes


def main() -> None:
    """Fuzz all operators and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--cases', type=int, default=60, help='of each operator')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--operator', choices=sorted(OPERATORS))
    parser.add_argument(
        '--list', action='store_true', help='print the operator and seed of each lost call'
    )
    options = parser.parse_args()
    torch.set_num_threads(1)  # a fork has no other threads
    total: Counter[str] = Counter()
    for name in [options.operator] if options.operator else OPERATORS:
        seeds = list(range(options.seed, options.seed + options.cases))
        outcomes = dict(zip(seeds, outcomes_of(name, seeds)))
        counts = Counter(outcomes.values())
        total += counts
        kinds = '  '.join(f'{number} {kind}' for kind, number in counts.most_common())
        print(f'{name:<24}{len(outcomes):5d} tried  {kinds}')
        for seed, kind in outcomes.items():
            if options.list and kind != 'held':
                print(f'  {name} {seed}: {kind}')
    lost = sum(total.values()) - total['held']
    print(f'{sum(total.values())} tried, {total["held"]} held, {lost} lost')
    sys.exit(lost > 0)


if __name__ == '__main__':
    main()
