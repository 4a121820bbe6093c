"""Speed and memory of models, or of attentions over tokens, measured side by side in one run.

    mmflatten benchmark FLattenSwin:arch=tiny configs/flatten_swin/swin-t_8xb128_in1k.py
    mmflatten benchmark FLattenPVT:arch=tiny --vs timm:swin_tiny_patch4_window7_224 --csv speed.csv
    mmflatten benchmark CONFIG model.onnx model.onnx:runtime=openvino --batch 1
    mmflatten benchmark --zoo
    mmflatten benchmark --operators softmax focused linear --tokens 196 3136 --plot speed.png

See docs/benchmark.md for the method and the columns.
"""

import json
import math
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from mmflatten.cli.common import command, positive, require_folder
from mmflatten.console import print_progress
from mmflatten.measure.speed import machine, results
from mmflatten.measure.speed.launches import profile_call
from mmflatten.measure.speed.memory import peak_memory
from mmflatten.measure.speed.models import (
    DTYPES,
    REFERENCE,
    ZOO,
    RunSettings,
    compiler_options,
    default_size,
    is_config,
    model_subject,
)
from mmflatten.measure.speed.operators import OPERATORS, SOFTMAX, mixer_config, operator_subject
from mmflatten.measure.speed.timing import Subject, measure
from mmflatten.predict.predictor import check_device
from mmflatten.results.drawing import save_png
from mmflatten.results.figures import Lines
from mmflatten.runtime.speed import file_subject, is_file_spec, size_of_file

SECONDS_PER_MODEL, SECONDS_PER_OPERATOR = 20.0, 3.0
PROGRESS_INTERVAL = 5.0  # seconds
TOKENS = [196, 784, 3136, 12544]
PANELS = {'time of one call (s)': results.TIME, 'peak memory (MiB)': results.MEMORY}


def options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        'models',
        nargs='*',
        metavar='MODEL',
        help=(
            'config file, backbone with arguments such as '
            'FLattenSwin:arch=tiny,attn_types=LLSS, timm:NAME, or a file of mmflatten export, '
            'model.onnx or model.onnx:runtime=openvino'
        ),
    )
    add('--zoo', action='store_true', help=f'compare {", ".join(ZOO)} with {REFERENCE}')
    add(
        '--operators',
        nargs='+',
        metavar='NAME',
        help=(
            f'attentions: {", ".join(OPERATORS)}, all, or a class of '
            'mmflatten.models.attention with arguments'
        ),
    )
    add(
        '--vs',
        metavar='MODEL',
        help="reference of the ratios (default: the first model; for --zoo timm's Swin-T)",
    )
    add(
        '--batch',
        type=positive,
        metavar='N',
        help='images, or token maps, per call (default: 8; for --operators 1)',
    )
    add(
        '--size',
        nargs='+',
        type=positive,
        metavar='H',
        action='append',
        help=(
            'H, or H W, of the images; repeat it '
            'for several sizes (default: that of the configs if they agree, else 224)'
        ),
    )
    add(
        '--tokens',
        nargs='+',
        type=positive,
        metavar='N',
        default=[],
        help=f'numbers of tokens, for --operators (default: {" ".join(map(str, TOKENS))})',
    )
    add(
        '--embed-dims',
        type=positive,
        default=96,
        metavar='C',
        help='channels, for --operators (default: 96)',
    )
    add(
        '--heads', type=positive, default=3, metavar='h', help='heads, for --operators (default: 3)'
    )
    add(
        '--dtype',
        choices=DTYPES,
        default='fp32',
        help='bf16 and fp16 run under autocast (default: fp32)',
    )
    add('--device', default='cpu', help='cpu, cuda or cuda:N (default: cpu)')
    add('--threads', type=positive, default=2, metavar='N', help='CPU threads (default: 2)')
    add('--train', action='store_true', help='time forward and backward pass instead of inference')
    add(
        '--compile',
        action='store_const',
        const='inductor',
        help='use torch.compile; in inference with frozen weights',
    )
    add('--rounds', type=positive, metavar='N', help='maximum number of rounds')
    add(
        '--seconds',
        type=positive,
        metavar='S',
        help=(
            'time per model, or per attention and number of tokens; at least 3 rounds run (default'
            f' without --rounds: {SECONDS_PER_MODEL:g} and {SECONDS_PER_OPERATOR:g})'
        ),
    )
    add(
        '--csv',
        type=Path,
        metavar='FILE',
        help='write a row per model, or per attention and number of tokens',
    )
    add(
        '--json',
        type=Path,
        metavar='FILE',
        help='write the machine, the settings and the time of every round',
    )
    add(
        '--plot',
        type=Path,
        metavar='FILE.png',
        help='draw time and memory over tokens, or over the sizes of models',
    )
    add('--markdown', action='store_true', help='print Markdown tables')


def check(args: Namespace) -> None:
    """Raise ValueError for options that contradict each other or this machine."""
    if bool(args.models or args.zoo) == bool(args.operators):
        raise ValueError('MODEL: expected models, --zoo or both, or else --operators.')
    if args.operators:
        check_operator_options(args)
    elif args.tokens:
        raise ValueError('--tokens: only for --operators. Remove it.')
    for size in args.size or ():
        if len(size) > 2:
            raise ValueError(f'--size: expected H, or H W, got {" ".join(map(str, size))}.')
    check_device(args.device)
    for option in ('csv', 'json', 'plot'):
        file = getattr(args, option)
        if file is not None:
            require_folder(f'--{option}', file)


def check_operator_options(args: Namespace) -> None:
    if args.embed_dims % args.heads:
        raise ValueError(
            f'--embed-dims: must be divisible by --heads {args.heads}, got {args.embed_dims}.'
        )
    if args.vs:
        raise ValueError(
            f'--vs: only for models, got {args.vs}. Remove it; the ratios refer to {SOFTMAX}.'
        )


def size_of_models(specs: list[str]) -> tuple[int, int]:
    """Return the default (H, W): that of all files and configs if they agree, else 224 x 224."""
    files = [spec for spec in specs if is_file_spec(spec)]
    configs = [spec for spec in specs if is_config(spec)]
    sizes = {size_of_file(spec) for spec in files}
    if configs or not files:
        sizes.add(default_size(configs))
    return sizes.pop() if len(sizes) == 1 else RunSettings.size


def measure_models(args: Namespace, settings: RunSettings) -> list[results.Row]:
    """Return a row for each model and size; the ratios refer to the first model."""
    wanted: list[tuple[str | None, str]] = []  # title and spec
    if args.vs or args.zoo:
        wanted.append((None, args.vs or REFERENCE))
    if args.zoo:
        wanted += ZOO.items()
    wanted += [(None, spec) for spec in args.models]
    rows = []
    for size in args.size or [settings.size]:
        settings = replace(settings, size=(size[0], size[-1]))
        subjects = []
        for title, spec in wanted:
            print_progress(f'building {title or spec}')
            if is_file_spec(spec):
                subjects.append(file_subject(spec, settings))
            else:
                subjects.append(model_subject(spec, settings, title))
        rows += run_group(subjects, args, settings, default_seconds=SECONDS_PER_MODEL, reference=0)
    return rows


def measure_operators(args: Namespace, settings: RunSettings) -> list[results.Row]:
    """Return a row for each attention and number of tokens.

    The ratios refer to softmax if it is measured.
    """
    names = list(dict.fromkeys(OPERATORS if args.operators == ['all'] else args.operators))
    reference = names.index(SOFTMAX) if SOFTMAX in names else None
    for name in names:
        mixer_config(name)  # an unknown one fails before the first is built
    numbers = sorted(set(args.tokens or TOKENS))
    rows = []
    for index, tokens in enumerate(numbers, 1):
        print_progress(
            f'[{index}/{len(numbers)}] building {len(names)} attentions of {tokens} tokens'
        )
        subjects = []
        for name in names:
            subject = operator_subject(
                name, tokens, args.embed_dims, num_heads=args.heads, settings=settings
            )
            subjects.append(subject)
        rows += run_group(
            subjects, args, settings, default_seconds=SECONDS_PER_OPERATOR, reference=reference
        )
    return rows


def run_group(
    subjects: list[Subject],
    args: Namespace,
    settings: RunSettings,
    *,
    default_seconds: float,
    reference: int | None,
) -> list[results.Row]:
    """Measure the peak memory of each subject, then their times, round by round.

    Args:
        default_seconds: limit of the time without --seconds and --rounds.
        reference: index of the subject that the ratios refer to.
    """
    torch.compiler.reset()  # a second size would be compiled as an open size
    duration = ', which compiles for minutes' if settings.compile else ''
    print_progress(f'measuring memory, then warming up{duration}')
    peaks = []
    for subject in subjects:
        peak = peak_memory(subject.call, settings.device) if subject.in_pytorch else None
        peaks.append(peak)
    if args.rounds and not args.seconds:
        default_seconds = math.inf
    times = measure(
        subjects,
        rounds=args.rounds or math.inf,
        seconds=args.seconds or default_seconds,
        device=settings.device,
        progress=progress(),
    )
    works = []
    if settings.device != 'cpu':
        works = [profile_call(subject.call) for subject in subjects]
    return results.result_rows(
        subjects, times, peaks, settings=settings, reference=reference, works=works
    )


def progress() -> Callable[[int, float, float], None]:
    """Return a function that prints the progress of `measure` every few seconds and at the end."""
    last = time.monotonic()

    def report(rounds: int, elapsed: float, left: float) -> None:
        nonlocal last
        if left <= 0 or time.monotonic() - last >= PROGRESS_INTERVAL:
            last = time.monotonic()
            print_progress(f'round {rounds} done; {elapsed:.0f} s elapsed, about {left:.0f} s left')

    return report


def write(
    rows: list[results.Row], facts: dict[str, Any], args: Namespace, settings: RunSettings
) -> None:
    """Print the results and write the files."""
    run = dict(vars(settings))
    if args.operators:
        del run['size']
        run |= dict(embed_dims=args.embed_dims, heads=args.heads)
    else:
        sizes = args.size or [settings.size]
        run['size'] = ' '.join(f'{size[0]}x{size[-1]}' for size in sizes)
    for name, value in facts.items():
        print(f'{name}: {value}')
    given = [f'{name} {value}' for name, value in run.items() if value is not None]
    print(f'run: {", ".join(given)}')
    print(f'\n{results.result_table(rows, args.markdown)}')
    if args.operators and rows[0]['reference']:
        print(f'\n{results.crossover_table(rows, args.markdown)}')
    if args.csv:
        results.write_csv(rows, args.csv)
    if args.json:
        content = {'machine': facts, 'command': args.argv, 'results': rows}
        args.json.write_text(json.dumps(content, indent=2) + '\n', encoding='utf-8')
    if args.plot:
        axis = 'tokens' if args.operators else 'pixels of an image'
        panels = {}
        for title, column in PANELS.items():
            lines = results.curves(rows, column)
            panels[title] = Lines(lines, axis, mean=SOFTMAX if SOFTMAX in lines else '', log=True)
        save_png(args.plot, panels)


@command('benchmark', __doc__, options)
def main(args: Namespace) -> None:
    check(args)
    torch.set_num_threads(args.threads)
    if ':' in args.device:
        torch.cuda.set_device(args.device)  # clock and memory are those of the current GPU
    if args.size:
        size = (args.size[0][0], args.size[0][-1])
    else:
        size = size_of_models([*args.models, args.vs or ''])
    settings = RunSettings(
        batch=args.batch or (1 if args.operators else 8),
        size=size,
        dtype=args.dtype,
        device=args.device,
        train=args.train,
        compile=args.compile,
    )
    run = measure_operators if args.operators else measure_models
    allocator = machine.keep_freed_memory()
    start = time.monotonic()
    before = machine.seconds_of_others()
    with compiler_options(settings):
        rows = run(args, settings)
    others = (machine.seconds_of_others() - before) / (time.monotonic() - start)
    facts = {
        **machine.describe_machine(settings.device),
        'allocator': allocator,
        'CPUs used by others': f'{others:.2f}',
    }
    write(rows, facts, args=args, settings=settings)
    if others > machine.BUSY_CPUS:
        print_progress(
            f'warning: other processes used {others:.2f} CPUs; trust only the ratios, or repeat on'
            ' an idle machine'
        )
