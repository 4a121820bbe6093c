"""Stress test of mmflatten: kills, full disks and hostile files.

    make stress
    python tools/maintain/stress hostile_files --quick

Every case is tried on real commands in processes of their own. The results are in `work_dirs/stress/results.json`; a
table of them is printed.
"""
import argparse
import shutil
import sys
import time
from pathlib import Path

# Imported before any case, so that a case starts in a moment.
import hostile_files
import kills
import mmdet.apis  # noqa: F401
import mmpretrain.apis  # noqa: F401
import torch
from cases import Results
from world import World

from mmflatten.measure.speed.machine import describe_machine

# Name -> function, cases, cases of a quick campaign, share of the time.
CAMPAIGNS = {
    'hostile_files': (hostile_files.campaign, 150, 16, .3), 'training': (kills.training, 44, 1, .2),
    'study': (kills.study, 36, 0, .3), 'full_disk': (kills.full_disk, 10, 0, .2)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('campaigns', nargs='*', metavar='CAMPAIGN', help=f'of {", ".join(CAMPAIGNS)} (default: all)')
    parser.add_argument('--out', type=Path, default=Path('work_dirs/stress'), help='folder, which is deleted first')
    parser.add_argument('--minutes', type=float, default=30., help='limit (default: 30)')
    parser.add_argument('--seed', type=int, default=0, help='of times, cuts and flipped bits (default: 0)')
    parser.add_argument('--quick', action='store_true', help='a few cases of some campaigns')
    args = parser.parse_args()
    unknown = set(args.campaigns) - set(CAMPAIGNS)
    if unknown:
        parser.error(f'CAMPAIGN: expected {", ".join(CAMPAIGNS)}, got {", ".join(sorted(unknown))}.')
    if args.out.exists() and not (args.out / 'results.json').exists():
        parser.error(f'--out: expected a new folder or that of a campaign, got {args.out}.')
    torch.set_num_threads(1)
    shutil.rmtree(args.out, ignore_errors=True)
    args.out.mkdir(parents=True)
    results, start = Results(args.out / 'results.json'), time.monotonic()
    world = World(args.out.resolve() / 'world', args.seed)
    chosen = {name: CAMPAIGNS[name] for name in args.campaigns or CAMPAIGNS}
    shares = sum(share for *_, share in chosen.values())
    for name, (campaign, many, few, share) in chosen.items():
        number, begin = few if args.quick else many, time.monotonic()
        if number:
            left = args.minutes * 60 - (begin - start)
            campaign(world, results, number, begin + left * share / shares)
        shares -= share
        print(f'{name}: {time.monotonic() - begin:.0f} s', file=sys.stderr, flush=True)
    lost = [outcome for outcome in results.outcomes if outcome.lost]
    print(f'{results.table()}\n\nSeed {args.seed}, {(time.monotonic() - start) / 60:.0f} minutes, '
          f'{describe_machine("cpu")["processor"]}.')
    return 1 if lost else 0


if __name__ == '__main__':
    sys.exit(main())
