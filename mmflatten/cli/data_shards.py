"""Pack a data set of class folders into few large files, or list one that is there.

`shards`: SOURCE/{train,val}/<class>/*.JPEG as tar (WebDataset), zip or LMDB files, with an index.
`index`: a folder of class folders, a text file with lines such as `n01440764/n01440764_18.JPEG 0`, or shards.

The configs read either through `mmflatten.IndexedImages`: docs/data_at_scale.md.
"""
import argparse
import sys
import time
from itertools import count
from pathlib import Path

from mmengine.utils import ProgressBar

from mmflatten.cli.common import positive
from mmflatten.datasets.shards import KINDS, build_index, build_shards, find_splits

WORDS = ('shards', 'index')


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog='mmflatten data', description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    words = made.add_subparsers(dest='word', required=True)
    shards = words.add_parser('shards', help='pack SOURCE/{train,val} into shards')
    shards.add_argument('source', type=Path, help='folder with train/ or val/ or both')
    shards.add_argument('--out', type=Path, required=True, help='folder to make')
    shards.add_argument('--format', choices=KINDS, default='tar', help='default: tar, which WebDataset reads too')
    shards.add_argument('--shard-size', type=positive, default=1024, metavar='MIB', help='of a shard (default: 1024)')
    shards.add_argument('--no-check', action='store_true', help='do not decode the images to find broken ones')
    shards.add_argument('--skip-broken', action='store_true', help='leave broken images out and name them')
    index = words.add_parser('index', help='list a folder, a text file or shards')
    index.add_argument('source', type=Path, nargs='+', help='one folder, one .txt file, or tar, zip and .lmdb files')
    index.add_argument('--out', type=Path, required=True, help='index to make; shards are found relative to its folder')
    return made


def pack(args: argparse.Namespace) -> str:
    """Do what the command line asks; returns what to tell the user."""
    start = time.monotonic()
    if args.word == 'index':
        number = build_index(args.source, args.out)
        return f'{args.out}: {number} images, listed in {time.monotonic() - start:.0f} s.'
    splits = find_splits(args.source)
    images = sum(len(split.images) for split in splits.values())
    bar, packed, step = ProgressBar(images, file=sys.stderr), count(1), -(-images // 1000)
    skipped: list[str] = []

    def on_image() -> None:
        number = next(packed)
        if number % step == 0 or number == images:
            bar.update(number - bar.completed)

    try:
        counts = build_shards(splits, args.out, args.format, args.shard_size * 2**20, not args.no_check,
                              skipped.append if args.skip_broken else None, on_image)
    finally:
        print(file=sys.stderr)  # what follows, an error too, has a line of its own
    for message in skipped:
        print(f'left out: {message}', file=sys.stderr)
    told = ' and '.join(f'{number} of {split}' for split, number in counts.items())
    return f'{args.out}: {told} images, {len(skipped)} left out, packed in {time.monotonic() - start:.0f} s.'
