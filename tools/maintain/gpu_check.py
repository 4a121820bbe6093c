"""Check and time the fused kernels on a GPU. After eight minutes no further check is started.

    python tools/maintain/gpu_check.py --json work_dirs/gpu_check.json
    python tools/maintain/gpu_check.py --device cpu --quick   # tests this program; its numbers mean nothing

Prints Markdown: operators and gradients compared with float64; every model family in float16 and bfloat16; time,
bandwidth and memory of the attention, compared with eager code, compiled eager code, the kernels of flash_bla (if
installed) and softmax attention; and models with and without the kernels.
"""
import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch
from gpu_sheet import correctness, speed
from gpu_sheet.sheet import sheet

from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line
from mmflatten.measure.speed.machine import describe_machine

SECONDS = 480  # after which no further check is started
TINY = speed.Case('tiny', 1, 49, 32, 2)


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--device', default='cuda', help='cuda, cuda:N or cpu (default: %(default)s)')
    parser.add_argument('--quick', action='store_true', help='tiny sizes, to test this program')
    parser.add_argument('--json', type=Path, metavar='FILE', help='file for all numbers')
    return parser.parse_args(argv)


def check(device: str, quick: bool) -> dict:
    """Run all checks and measurements."""
    start = time.monotonic()
    rounds, side = (3, 64) if quick else (20, 224)
    families = list(correctness.FAMILIES)[:2 if quick else None]
    left_out: list[str] = []

    def run(measure_rows: Callable[..., list[dict]], cases: Iterable[tuple], *options: object) -> list[dict]:
        """Measure the cases until the time is up, and list the others in `left_out`."""
        rows: list[dict] = []
        for case in cases:
            if time.monotonic() - start < SECONDS:
                rows += measure_rows(*case, *options)
                print(f'{time.monotonic() - start:.0f} s: {measure_rows.__name__} {case}', file=sys.stderr, flush=True)
            else:
                left_out.append(f'{measure_rows.__name__} {case}')
        return rows

    result = dict(machine=describe_machine(device), kernels=speed.kernels_run(device),
                  copy_bytes_s=speed.copy_bandwidth(device, quick),
                  operators=correctness.operator_rows(device, quick))
    result['families'] = run(correctness.family_rows, [(family,) for family in families], side, device)
    cases, sizes = ([TINY], [(1, (64, 64))]) if quick else (speed.CASES, speed.MODEL_SIZES)
    result['attentions'] = run(speed.attention_rows, [(case,) for case in cases], device, rounds)
    result['models'] = run(speed.model_rows, sizes, device, max(3, rounds // 4))
    return result | dict(left_out=left_out, seconds=time.monotonic() - start)


@command_line
def main(argv: Sequence[str]) -> int:
    arguments = parse_arguments(argv)
    if torch.device(arguments.device).type == 'cuda' and not torch.cuda.is_available():
        raise ValueError(f'--device: PyTorch finds no GPU, got {arguments.device}. Try it with --device cpu --quick.')
    result = check(arguments.device, arguments.quick)
    print(sheet(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + '\n', encoding='utf-8')
    correct = all(row['ok'] for row in result['operators'] + result['families'])
    return 0 if correct and not result['left_out'] else 1


if __name__ == '__main__':
    sys.exit(main())
