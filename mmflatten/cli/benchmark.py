"""Speed and memory of models, or of attentions over the number of tokens, measured side by side in one run.

    mmflatten benchmark FLattenSwin:arch=tiny configs/flatten_swin/swin-t_8xb128_in1k.py
    mmflatten benchmark FLattenPVT:arch=tiny --vs timm:swin_tiny_patch4_window7_224 --csv speed.csv
    mmflatten benchmark --zoo
    mmflatten benchmark --operators softmax focused linear --tokens 196 784 3136 12544 --plot speed.png

See docs/benchmark.md for what is measured and how to read it.
"""
import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from mmflatten.cli.common import positive, tool_parser
from mmflatten.console import command_line
from mmflatten.measure.speed.bound import products_alone
from mmflatten.measure.speed.crossovers import MEMORY, TIME, crossover_table, draw_operators, forecast
from mmflatten.measure.speed.machine import (
    BUSY_CPUS,
    available_cpus,
    describe_machine,
    free_memory,
    keep_freed_memory,
    seconds_of_others,
)
from mmflatten.measure.speed.memory import peak_memory
from mmflatten.measure.speed.models import DTYPES, REFERENCE, ZOO, RunSettings, model_subject
from mmflatten.measure.speed.operators import OPERATORS, SOFTMAX, mixer_config, operator_subject
from mmflatten.measure.speed.table import Row, result_rows, result_table, write_csv
from mmflatten.measure.speed.timing import Subject, measure

SECONDS_PER_MODEL, SECONDS_PER_OPERATOR = 20., 3.
SAY_EVERY = 5.  # seconds between two lines of progress
TOKENS = [196, 784, 3136, 12544]


def positive_seconds(text: str) -> float:
    """A number above zero, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.
    if not 0 < value < float('inf'):
        raise argparse.ArgumentTypeError(f'must be a positive number of seconds, received {text}')
    return value


def parser() -> argparse.ArgumentParser:
    made = tool_parser(__doc__, prog='mmflatten benchmark', formatter_class=argparse.RawDescriptionHelpFormatter)
    add = made.add_argument
    add('models', nargs='*', metavar='MODEL', help='a config file, a backbone with arguments such as '
        'FLattenSwin:arch=tiny,attn_types=LLSS, or timm:NAME')
    add('--zoo', action='store_true', help=f'{", ".join(ZOO)} against {REFERENCE}')
    add('--operators', nargs='+', metavar='NAME', help=f'attentions: {", ".join(OPERATORS)}, all, or a class of '
        'mmflatten.models.attention with arguments')
    add('--vs', metavar='MODEL', help="what the ratios refer to (default: the first model; with --zoo timm's Swin-T)")
    add('--batch', type=positive, metavar='N', help='images, or token maps (default: 8; for --operators 1)')
    add('--size', nargs='+', type=positive, default=[224], metavar='H', help='H, or H W, of the images (default: 224)')
    add('--tokens', nargs='+', type=positive, metavar='N', default=[],
        help=f'for --operators (default: {" ".join(map(str, TOKENS))})')
    add('--embed-dims', type=positive, default=96, metavar='C', help='channels, for --operators (default: 96)')
    add('--heads', type=positive, default=3, metavar='h', help='heads, for --operators (default: 3)')
    add('--dtype', choices=DTYPES, default='fp32', help='bf16 and fp16 run under autocast (default: fp32)')
    add('--device', default='cpu', help='cpu or cuda (default: cpu)')
    add('--threads', type=positive, default=2, metavar='N', help='CPU threads (default: 2)')
    add('--train', action='store_true', help='forward and backward pass instead of inference')
    add('--compile', action='store_true', help='through torch.compile; inference with its weights frozen')
    add('--bound', action='store_true', help='also time the matrix products alone, without what lies between them')
    add('--rounds', type=positive, metavar='N', help='at most so many rounds')
    add('--seconds', type=positive_seconds, metavar='S', help=f'per model (default without --rounds: '
        f'{SECONDS_PER_MODEL:g}) or per attention and number of tokens ({SECONDS_PER_OPERATOR:g}); at least 3 rounds')
    add('--limit', type=positive_seconds, metavar='S', default=math.inf, help='leave an attention out from the number '
        'of tokens on at which a call should take longer, by what fewer tokens took')
    add('--csv', type=Path, metavar='FILE', help='write a row per model, or per attention and number of tokens')
    add('--json', type=Path, metavar='FILE', help='write everything: machine, settings, every single time')
    add('--plot', type=Path, metavar='FILE.png', help='draw time and memory over the tokens, for --operators')
    add('--markdown', action='store_true', help='print Markdown tables')
    return made


def check(arguments: argparse.Namespace) -> None:
    """Fail before the first model is built."""
    if arguments.bound and (arguments.train or arguments.dtype != 'fp32'):
        raise ValueError('--bound is for inference in fp32: leave out --train and --dtype')
    if bool(arguments.models or arguments.zoo) == bool(arguments.operators):
        raise ValueError('give models, --zoo or both, or else --operators')
    if len(arguments.size) > 2:
        raise ValueError(f'--size {" ".join(map(str, arguments.size))}: give H, or H W')
    if arguments.operators:
        refused = [('--vs', arguments.vs)]
        if arguments.embed_dims % arguments.heads:
            raise ValueError(f'--embed-dims {arguments.embed_dims} must be divisible by --heads {arguments.heads}')
    else:
        refused = [('--tokens', arguments.tokens), ('--plot', arguments.plot), ('--limit', arguments.limit < math.inf)]
    for option, given in refused:
        if given:
            raise ValueError(f'{option} does not go {"with" if arguments.operators else "without"} --operators')
    check_device(arguments.device)
    for option in ('csv', 'json', 'plot'):
        file = getattr(arguments, option)
        if file is not None and not file.absolute().parent.is_dir():
            raise ValueError(f'--{option} {file}: the folder {file.parent} does not exist; make it first')


def check_device(name: str) -> None:
    kind, _, index = name.partition(':')
    if kind not in ('cpu', 'cuda') or ':' in name and not (kind == 'cuda' and index.isdecimal()):
        raise ValueError(f'--device {name}: must be cpu, cuda or cuda:N')
    if kind == 'cuda' and not torch.cuda.is_available():
        raise ValueError(f'--device {name}: PyTorch sees no GPU here')
    if index and int(index) >= torch.cuda.device_count():
        raise ValueError(f'--device {name}: there are {torch.cuda.device_count()} GPUs, numbered from 0')


def measure_models(arguments: argparse.Namespace, settings: RunSettings) -> list[Row]:
    """A row for each model; the ratios refer to the first one."""
    wanted = [(name, spec) for name, spec in ZOO.items() if arguments.zoo]
    wanted += [(None, spec) for spec in arguments.models]
    if arguments.vs or arguments.zoo:
        wanted.insert(0, (None, arguments.vs or REFERENCE))
    subjects = []
    for name, spec in wanted:
        say(f'building {name or spec}')
        subjects.append(model_subject(spec, settings, name))
    return run_group(subjects, arguments, settings, SECONDS_PER_MODEL, reference=0)


def measure_operators(arguments: argparse.Namespace, settings: RunSettings) -> list[Row]:
    """A row for each attention and number of tokens; the ratios refer to softmax, if it is among the attentions."""
    names = list(dict.fromkeys(OPERATORS if arguments.operators == ['all'] else arguments.operators))
    for name in names:
        mixer_config(name)  # an unknown one fails before the first is built
    numbers, rows = sorted(set(arguments.tokens or TOKENS)), []
    for index, tokens in enumerate(numbers, 1):
        say(f'[{index}/{len(numbers)}] building {len(names)} attentions of {tokens} tokens')
        names = [name for name in names if fits(name, tokens, rows, arguments.limit, settings.device)]
        subjects = [operator_subject(name, tokens, arguments.embed_dims, arguments.heads, settings) for name in names]
        if subjects:
            reference = names.index(SOFTMAX) if SOFTMAX in names else None
            rows += run_group(subjects, arguments, settings, SECONDS_PER_OPERATOR, reference)
    return rows


def fits(name: str, tokens: int, rows: list[Row], limit: float, device: str) -> bool:
    """Return True if time and memory of a call, extrapolated from fewer tokens, are within the limits."""
    numbers, own = list(dict.fromkeys(row['tokens'] for row in rows)), [row for row in rows if row['name'] == name]
    seconds, mib = (forecast(numbers, [row[column] for row in own], tokens) for column in (TIME, MEMORY))
    free = free_memory(device)
    if seconds <= limit and mib <= free:
        return True
    say(f'{name} is left out from {tokens} tokens on: a call should take {seconds:.3g} s and {mib:.0f} MiB, '
        f'limit {limit:g} s and {free:.0f} MiB')
    return False


def run_group(subjects: list[Subject], arguments: argparse.Namespace, settings: RunSettings, default_seconds: float,
              reference: int | None) -> list[Row]:
    """Peak memory of each subject, then their times, round by round."""
    say('memory, then warming up' + (', which compiles and takes minutes' if settings.compile else ''))
    peaks = [peak_memory(subject.call, settings.device) for subject in subjects]
    seconds = arguments.seconds or (math.inf if arguments.rounds else default_seconds)
    bounds = [replace(subject, call=products_alone(subject.call)) for subject in subjects if arguments.bound]
    times = measure([*subjects, *bounds], rounds=arguments.rounds or math.inf, seconds=seconds,
                    device=settings.device, progress=progress())
    return result_rows(subjects, times, peaks, settings, reference, times[len(subjects):] or None)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def progress() -> Callable[[int, float, float], None]:
    """Return a function that prints the progress of `measure`, every few seconds and at the end."""
    last = time.monotonic()

    def tell(rounds: int, elapsed: float, left: float) -> None:
        nonlocal last
        if left <= 0 or time.monotonic() - last >= SAY_EVERY:
            last = time.monotonic()
            say(f'round {rounds} done; {elapsed:.0f} s so far, about {left:.0f} s left')

    return tell


def show(rows: list[Row], machine: dict[str, Any], arguments: argparse.Namespace, settings: RunSettings) -> None:
    """Print what was measured and on what, and draw it."""
    run = {**vars(settings), 'size': 'x'.join(map(str, settings.size))}
    if arguments.operators:
        del run['size']
        run |= dict(embed_dims=arguments.embed_dims, heads=arguments.heads)
    settings_line = ', '.join(f'{name} {value}' for name, value in run.items())
    print(*(f'{name}: {value}' for name, value in machine.items()), f'run: {settings_line}', sep='\n')
    print(f'\n{result_table(rows, arguments.markdown)}')
    if arguments.operators and rows[0]['reference']:
        print(f'\n{crossover_table(rows, arguments.markdown)}')
    if arguments.plot:
        draw_operators(rows, arguments.plot, f'{settings_line}, {machine["threads"]} CPU threads')


def write(rows: list[Row], machine: dict[str, Any], arguments: argparse.Namespace, argv: Sequence[str]) -> None:
    """Write the files that were asked for."""
    if arguments.csv:
        write_csv(rows, arguments.csv)
    if arguments.json:
        everything = {'machine': machine, 'command': list(argv), 'results': rows}
        arguments.json.write_text(json.dumps(everything, indent=2) + '\n', encoding='utf-8')


@contextmanager
def compiler_settings(settings: RunSettings) -> Iterator[None]:
    """In inference weights are frozen, so that Inductor packs them for the processor's matrix products."""
    import torch._inductor.config as inductor

    # Models share the code of their classes, of which Dynamo compiles 8 versions and then gives up.
    with torch._dynamo.config.patch(cache_size_limit=1024), inductor.patch(freezing=not settings.train):
        yield


@command_line
def main(argv: Sequence[str]) -> int:
    arguments = parser().parse_args(argv)
    check(arguments)
    torch.set_num_threads(arguments.threads)
    if ':' in arguments.device:
        torch.cuda.set_device(arguments.device)  # its clock and its memory are asked of the current GPU
    settings = RunSettings(arguments.batch or (1 if arguments.operators else 8),
                           (arguments.size[0], arguments.size[-1]), arguments.dtype, arguments.device,
                           arguments.train, arguments.compile)
    run = measure_operators if arguments.operators else measure_models
    os.environ.setdefault('KINETO_LOG_LEVEL', '99')  # else the profiler writes to the standard error every time
    allocator, start, before = keep_freed_memory(), time.monotonic(), seconds_of_others()
    with compiler_settings(settings) if settings.compile else nullcontext():
        rows = run(arguments, settings)
    others = (seconds_of_others() - before) / (time.monotonic() - start)
    machine = {**describe_machine(settings.device), 'allocator': allocator, 'CPUs used by others': f'{others:.2f}'}
    show(rows, machine, arguments, settings)
    write(rows, machine, arguments, argv)
    if others > BUSY_CPUS:
        say(f'warning: other processes used {others:.2f} CPUs; repeat on an idle machine, or trust only the ratios')
    if arguments.threads > available_cpus():
        say(f'warning: --threads {arguments.threads} is more than the {available_cpus()} CPUs there are')
    return 0
