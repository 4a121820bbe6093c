"""Whether a model has become slower: ratios to timm's Swin-T, in one thread, against the committed ones.

    python tools/maintain/speed_guard.py            # fails where a ratio is more than 10 % below the table's
    python tools/maintain/speed_guard.py --write    # puts the ratios into the table, for this processor family
"""
import argparse
import sys
from collections.abc import Sequence

import torch
from speed_ratios import TABLE, measure_ratios, processor_family, read_table, slower, write_table

from mmflatten.cli.common import positive, tool_parser
from mmflatten.console import command_line
from mmflatten.measure.speed.machine import keep_freed_memory
from mmflatten.text_table import align

ROUNDS = 15


def parser() -> argparse.ArgumentParser:
    made = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument('--write', action='store_true', help='write the table in the place of comparing with it')
    made.add_argument('--rounds', type=positive, default=ROUNDS, metavar='N', help=f'(default: {ROUNDS})')
    return made


@command_line
def main(argv: Sequence[str]) -> int:
    arguments = parser().parse_args(argv)
    family = processor_family()
    table = read_table(family)
    if not arguments.write and not table:
        raise ValueError(f'{TABLE.name} has no ratios of this processor family ({family}). Write them at a commit that '
                         'is fast enough: python tools/maintain/speed_guard.py --write')
    torch.set_num_threads(1)
    keep_freed_memory()
    ratios = measure_ratios(arguments.rounds, lambda text: print(text, file=sys.stderr, flush=True))
    bad = [] if arguments.write else slower(ratios, table)
    cells = [(what, *(f'{side[what]:.3f}' if what in side else '-' for side in (ratios, table)),
              'FAILED' if what in bad else '') for what in {**table, **ratios}]
    print(family, align(cells, ("ratio to timm's Swin-T", 'now', 'table', ''), {0, 3}), sep='\n\n')
    if arguments.write:
        write_table(family, ratios)
        print(f'\nwritten to {TABLE}')
    return int(bool(bad))


if __name__ == '__main__':
    sys.exit(main())
