"""Speed and memory of models, or of attentions over the number of tokens, measured side by side in one run.

    python tools/analysis/benchmark.py FLattenSwin:arch=tiny configs/flatten_swin/swin-t_8xb128_in1k.py
    python tools/analysis/benchmark.py FLattenPVT:arch=tiny --vs timm:swin_tiny_patch4_window7_224 --csv speed.csv
    python tools/analysis/benchmark.py --zoo --plain-linear
    python tools/analysis/benchmark.py --operators softmax focused linear --tokens 196 784 3136 12544 --plot speed.png

On Linux it starts itself again with the settings of glibc's allocator that a measurement on the CPU needs.
See docs/benchmark.md for what is measured and how to read it.
"""
import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from mmflatten.analysis.speed.machine import LoadWatch, as_dict, available_cpus, describe_machine, restart_environment
from mmflatten.analysis.speed.memory import peak_memory
from mmflatten.analysis.speed.models import (
    DTYPES,
    REFERENCE,
    TIMM_PREFIX,
    ZOO,
    RunSettings,
    model_subject,
    with_plain_linear,
)
from mmflatten.analysis.speed.operators import OPERATORS, mixer_config, operator_subject
from mmflatten.analysis.speed.plot import check_matplotlib, draw_operators
from mmflatten.analysis.speed.table import (
    Result,
    as_row,
    crossover_table,
    curves_of,
    model_table,
    operator_table,
    settings_line,
    softmax_beside,
    write_csv,
)
from mmflatten.analysis.speed.timing import Progress, Subject, measure
from mmflatten.engine.cli import command_line, tool_parser

SECONDS_PER_MODEL, SECONDS_PER_OPERATOR = 20., 3.
TOKENS = [196, 784, 3136, 12544]


def positive(text: str) -> int:
    """An integer above zero, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'must be a positive integer, received {text}')
    return int(text)


def positive_seconds(text: str) -> float:
    """A number above zero, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.
    if not 0 < value < float('inf'):
        raise argparse.ArgumentTypeError(f'must be a positive number of seconds, received {text}')
    return value


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add('models', nargs='*', metavar='MODEL', help='a config file, a backbone with arguments such as '
        'FLattenSwin:arch=tiny,attn_types=LLSS, or timm:NAME')
    add('--zoo', action='store_true', help=f'{", ".join(ZOO)} against {REFERENCE}, with the ratios they should reach')
    add('--operators', nargs='+', metavar='NAME', help=f'attentions: {", ".join(OPERATORS)}, all, or a class of '
        'mmflatten.models.attention with arguments')
    add('--vs', metavar='MODEL', help="what the ratios refer to (default: the first model; with --zoo timm's Swin-T)")
    add('--plain-linear', action='store_true', help='time each model of mmflatten a second time with token projections '
        'by F.linear, so that the ratio shows the attention alone (float32 on the CPU)')
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
    add('--compile', action='store_true', help='through torch.compile')
    add('--channels-last', action='store_true', help='images and convolutions in channels-last memory')
    add('--rounds', type=positive, metavar='N', help='at most so many rounds')
    add('--seconds', type=positive_seconds, metavar='S', help=f'per model (default without --rounds: '
        f'{SECONDS_PER_MODEL:g}) or per attention and number of tokens ({SECONDS_PER_OPERATOR:g}); at least 3 rounds')
    add('--csv', type=Path, metavar='FILE', help='write a row per model, or per attention and number of tokens')
    add('--json', type=Path, metavar='FILE', help='write everything: machine, settings, every single time')
    add('--plot', type=Path, metavar='FILE.png', help='draw time and memory over the tokens, for --operators')
    add('--markdown', action='store_true', help='print Markdown tables')
    return parser.parse_args(argv)


def check(arguments: argparse.Namespace) -> None:
    """Fail before the first model is built."""
    if bool(arguments.models or arguments.zoo) == bool(arguments.operators):
        raise ValueError('give models, --zoo or both, or else --operators')
    if len(arguments.size) > 2:
        raise ValueError(f'--size {" ".join(map(str, arguments.size))}: give H, or H W')
    if arguments.operators:
        refused = [('--vs', arguments.vs), ('--plain-linear', arguments.plain_linear)]
        if arguments.embed_dims % arguments.heads:
            raise ValueError(f'--embed-dims {arguments.embed_dims} must be divisible by --heads {arguments.heads}')
    else:
        refused = [('--tokens', arguments.tokens), ('--plot', arguments.plot)]
    for option, given in refused:
        if given:
            raise ValueError(f'{option} does not go {"with" if arguments.operators else "without"} --operators')
    check_device(arguments.device)
    if arguments.plain_linear and (torch.device(arguments.device).type != 'cpu' or arguments.dtype != 'fp32'):
        raise ValueError('--plain-linear changes nothing but float32 on the CPU; leave it out, or --device and --dtype')
    if arguments.plain_linear and arguments.compile:
        raise ValueError('--plain-linear does not go with --compile: compiled models keep their projections')
    for option in ('csv', 'json', 'plot'):
        file = getattr(arguments, option)
        if file is not None and not file.absolute().parent.is_dir():
            raise ValueError(f'--{option} {file}: the folder {file.parent} does not exist; make it first')
    if arguments.plot:
        check_matplotlib()


def check_device(name: str) -> None:
    kind, _, index = name.partition(':')
    if kind not in ('cpu', 'cuda') or ':' in name and not (kind == 'cuda' and index.isdecimal()):
        raise ValueError(f'--device {name}: must be cpu, cuda or cuda:N')
    if kind == 'cuda' and not torch.cuda.is_available():
        raise ValueError(f'--device {name}: PyTorch sees no GPU here')
    if index and int(index) >= torch.cuda.device_count():
        raise ValueError(f'--device {name}: there are {torch.cuda.device_count()} GPUs, numbered from 0')


def measure_models(arguments: argparse.Namespace, settings: RunSettings) -> tuple[list[Result], Result]:
    """Results, and the one that the ratios refer to."""
    progress = Progress(1, sys.stderr)
    wanted = [(name, spec, goal) for name, (spec, goal) in ZOO.items() if arguments.zoo]
    wanted += [(None, spec, None) for spec in arguments.models]
    reference = arguments.vs or (REFERENCE if arguments.zoo else None)
    if reference:
        wanted.insert(0, (None, reference, None))
    at_goals = settings == RunSettings() and arguments.threads == 2 and reference == REFERENCE
    subjects: list[Subject] = []
    goals: list[float | None] = []
    for name, spec, goal in wanted:
        progress.say(f'building {name or spec}')
        subjects.append(model_subject(spec, settings, name))
        goals.append(goal if at_goals else None)
        if arguments.plain_linear and not spec.startswith(TIMM_PREFIX):
            subjects.append(with_plain_linear(subjects[-1]))
            goals.append(None)
    results = run_group(subjects, arguments, progress, SECONDS_PER_MODEL)
    results = [replace(result, goal=goal) for result, goal in zip(results, goals)]
    return results, results[0]


def measure_operators(arguments: argparse.Namespace, settings: RunSettings) -> list[Result]:
    names = list(dict.fromkeys(OPERATORS if arguments.operators == ['all'] else arguments.operators))
    for name in names:
        mixer_config(name)
    numbers = sorted(set(arguments.tokens or TOKENS))
    progress, results = Progress(len(numbers), sys.stderr), []
    for tokens in numbers:
        progress.say(f'building {len(names)} attentions of {tokens} tokens')
        subjects = [operator_subject(name, tokens, arguments.embed_dims, arguments.heads, settings) for name in names]
        group = run_group(subjects, arguments, progress, SECONDS_PER_OPERATOR)
        results.extend(replace(result, tokens=tokens) for result in group)
    return results


def run_group(subjects: list[Subject], arguments: argparse.Namespace, progress: Progress,
              default_seconds: float) -> list[Result]:
    """Peak memory of each subject, then their times, round by round."""
    progress.say('memory, then warming up' + (', which compiles and takes minutes' if arguments.compile else ''))
    peaks = [peak_memory(subject, arguments.device) for subject in subjects]
    seconds = default_seconds if arguments.rounds is None and arguments.seconds is None else arguments.seconds
    start = time.monotonic()
    measured = measure(subjects, rounds=arguments.rounds, seconds=seconds, device=arguments.device,
                       progress=progress.tell)
    progress.close_group(time.monotonic() - start)
    kept = measured.undisturbed()
    left_out = len(measured.others) - len(kept.others)
    return [Result(*parts, left_out=left_out) for parts in zip(subjects, kept.timings, peaks)]


@command_line
def main(argv: Sequence[str]) -> int:
    arguments = parse_arguments(argv)
    check(arguments)
    torch.set_num_threads(arguments.threads)
    if ':' in arguments.device:
        torch.cuda.set_device(arguments.device)  # its clock and its memory are asked of the current GPU
    settings = RunSettings(arguments.batch or (1 if arguments.operators else 8),
                           (arguments.size[0], arguments.size[-1]), arguments.dtype, arguments.device,
                           arguments.train, arguments.compile, arguments.channels_last)
    watch, reference = LoadWatch(), None
    if arguments.operators:
        results = measure_operators(arguments, settings)
    else:
        results, reference = measure_models(arguments, settings)
    load, machine = watch.stop(), describe_machine(arguments.device)

    what = (f'{arguments.embed_dims} channels, {arguments.heads} heads' if arguments.operators else
            'x'.join(map(str, settings.size)))
    print('\n'.join([*machine.lines(), f'run: {settings_line(settings, arguments.threads, what)}', load.line(), '']))
    if reference:
        print(model_table(results, reference, arguments.markdown))
    else:
        show_operators(results, arguments)
    rows = [as_row(result, reference or softmax_beside(results, result), settings) for result in results]
    if arguments.csv:
        write_csv(rows, arguments.csv)
    if arguments.json:
        for row, result in zip(rows, results):
            row['seconds'] = result.timing.seconds
        everything = {'machine': as_dict(machine, load), 'command': list(argv), 'results': rows}
        arguments.json.write_text(json.dumps(everything, indent=2) + '\n', encoding='utf-8')
    warnings = load.warnings()
    if arguments.threads > available_cpus():
        warnings.append(f'--threads {arguments.threads} is more than the {available_cpus()} CPUs there are')
    for warning in warnings:
        print(f'warning: {warning}', file=sys.stderr)
    return 0


def show_operators(results: list[Result], arguments: argparse.Namespace) -> None:
    print(operator_table(results, arguments.markdown))
    curves = curves_of(results)
    table = crossover_table(curves, arguments.markdown)
    if table:
        print(f'\n{table}')
    if arguments.plot:
        kind = 'training' if arguments.train else 'inference'
        place = arguments.device if arguments.device != 'cpu' else f'CPU threads: {arguments.threads}'
        draw_operators(curves, arguments.plot, f'attention over N tokens: {kind}, {arguments.embed_dims} channels, '
                       f'{arguments.heads} heads, {arguments.dtype}, {place}')


if __name__ == '__main__':
    environment = restart_environment(os.environ)
    if environment is not None:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    sys.exit(main())
