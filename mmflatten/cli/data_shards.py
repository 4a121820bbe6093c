"""Pack class folders into tar shards, or index existing data.

`shards`: pack SOURCE/{train,val}/<class>/*.JPEG into tar files (WebDataset) with an index.
`index`: index a folder of class folders, a text file with lines such as `n01440764/n01440764_18.JPEG 0`, or tar files.

Configs read both through `mmflatten.IndexedImages`: docs/data_at_scale.md.
"""
import argparse
import sys
import time
from itertools import count
from pathlib import Path

from mmengine.utils import ProgressBar

from mmflatten.cli.common import positive
from mmflatten.datasets.shards import build_index, build_shards, find_splits

WORDS = ('shards', 'index')


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog='mmflatten data', description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    words = made.add_subparsers(dest='word', required=True)
    shards = words.add_parser('shards', help='pack SOURCE/{train,val} into shards')
    shards.add_argument('source', type=Path, help='folder with train/, val/ or both')
    shards.add_argument('--out', type=Path, required=True, help='folder to create')
    shards.add_argument('--format', default='tar', metavar='tar', help='the only format (default: tar)')
    shards.add_argument('--shard-size', type=positive, default=1024, metavar='MIB', help='size of a shard '
                        '(default: 1024)')
    shards.add_argument('--no-check', action='store_true', help='skip the decoding test for broken images')
    shards.add_argument('--skip-broken', action='store_true', help='leave broken images out and list them')
    index = words.add_parser('index', help='index a folder, a text file or tar files')
    index.add_argument('source', type=Path, nargs='+', help='one folder, one .txt file, or tar files')
    index.add_argument('--out', type=Path, required=True, help='index to create; shards are stored relative to its '
                       'folder')
    return made


def pack(args: argparse.Namespace) -> str:
    """Run `shards` or `index` and return the summary."""
    start = time.monotonic()
    if args.word == 'index':
        number = build_index(args.source, args.out)
        return f'{args.out}: {number} images indexed in {time.monotonic() - start:.0f} s.'
    if args.format != 'tar':
        raise ValueError(f'--format: expected tar, got {args.format}. Other formats were removed.')
    splits = find_splits(args.source)
    images = sum(len(split.images) for split in splits.values())
    bar, packed, step = ProgressBar(images, file=sys.stderr), count(1), -(-images // 1000)
    skipped: list[str] = []

    def on_image() -> None:
        number = next(packed)
        if number % step == 0 or number == images:
            bar.update(number - bar.completed)

    try:
        counts = build_shards(splits, args.out, args.shard_size * 2**20, not args.no_check,
                              skipped.append if args.skip_broken else None, on_image)
    finally:
        print(file=sys.stderr)  # ends the line of the progress bar
    for message in skipped:
        print(f'left out: {message}', file=sys.stderr)
    summary = ' and '.join(f'{number} {split}' for split, number in counts.items())
    return f'{args.out}: {summary} images packed, {len(skipped)} left out, in {time.monotonic() - start:.0f} s.'
