"""Check and time the fused kernels on the GPU at hand, in one run that begins nothing new after eight minutes.

    python tools/maintain/gpu_check.py --json work_dirs/gpu_check.json
    python tools/maintain/gpu_check.py --device cpu --quick   # that the tool itself runs; its figures mean nothing

Prints Markdown: whether operators and gradients agree with float64, what every family makes of float16 and bfloat16,
time, bandwidth and memory of the attention against its eager form, compiled eager code, the kernels of flash_bla (if
installed) and softmax attention, and models with and without the kernels.
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

SECONDS = 480  # after which nothing else is begun
TINY = speed.Case('tiny', 1, 49, 32, 2)


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--device', default='cuda', help='cuda, cuda:N or cpu (default: %(default)s)')
    parser.add_argument('--quick', action='store_true', help='tiny sizes, to see that everything runs')
    parser.add_argument('--json', type=Path, metavar='FILE', help='write every figure')
    return parser.parse_args(argv)


def check(device: str, quick: bool) -> dict:
    """Everything that is checked and measured."""
    start = time.monotonic()
    rounds, side = (3, 64) if quick else (20, 224)
    families = list(correctness.FAMILIES)[:2 if quick else None]
    left_out: list[str] = []

    def while_time(rows_of: Callable[..., list[dict]], cases: Iterable[tuple], *more: object) -> list[dict]:
        rows: list[dict] = []
        for case in cases:
            if time.monotonic() - start < SECONDS:
                rows += rows_of(*case, *more)
                print(f'{time.monotonic() - start:.0f} s: {rows_of.__name__} {case}', file=sys.stderr, flush=True)
            else:
                left_out.append(f'{rows_of.__name__} {case}')
        return rows

    result = dict(machine=describe_machine(device), kernels=speed.kernels_run(device),
                  copy_bytes_s=speed.copy_bandwidth(device, quick),
                  operators=correctness.operator_rows(device, quick))
    result['families'] = while_time(correctness.family_rows, [(family,) for family in families], side, device)
    cases, sizes = ([TINY], [(1, (64, 64))]) if quick else (speed.CASES, speed.MODEL_SIZES)
    result['attentions'] = while_time(speed.attention_rows, [(case,) for case in cases], device, rounds)
    result['models'] = while_time(speed.model_rows, sizes, device, max(3, rounds // 4))
    return result | dict(left_out=left_out, seconds=time.monotonic() - start)


@command_line
def main(argv: Sequence[str]) -> int:
    arguments = parse_arguments(argv)
    if torch.device(arguments.device).type == 'cuda' and not torch.cuda.is_available():
        raise ValueError(f'--device {arguments.device}: PyTorch sees no GPU here')
    result = check(arguments.device, arguments.quick)
    print(sheet(result))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + '\n', encoding='utf-8')
    right = all(row['ok'] for row in result['operators'] + result['families'])
    return 0 if right and not result['left_out'] else 1


if __name__ == '__main__':
    sys.exit(main())
