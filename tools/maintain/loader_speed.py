"""Compare the speed of reading folders and tar shards, or measure the memory of an index (`--paths`).

The images are synthetic JPEGs of ImageNet's size, read in random order by one process with one thread. Rounds are
interleaved; medians are printed. docs/data_at_scale.md has the results.
"""
import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import psutil
import torch
from mmengine.config import Config
from mmengine.fileio import get
from mmengine.registry import DATASETS, DefaultScope
from torch.utils.data import DataLoader

from mmflatten.cli.common import positive, tool_parser
from mmflatten.cli.data import main as data_command
from mmflatten.console import command_line
from mmflatten.datasets.image_index import Entry, write_index
from mmflatten.datasets.indexed_images import IndexedImages

PIPELINE = Path(__file__).parents[2] / 'configs/_base_/datasets/imagenet_bs128_224.py'
CLASSES = 10
MIB = 2**20


def make_images(root: Path, number: int, shape: tuple[int, int] = (375, 500)) -> float:
    """Write JPEGs of a height and width in class folders and return their mean size in KB."""
    rng, sizes = np.random.default_rng(0), []
    for i in range(number):
        coarse, fine = (rng.integers(0, 256, (*size, 3), np.uint8) for size in ((12, 16), shape))
        image = cv2.addWeighted(cv2.resize(coarse, shape[::-1], interpolation=cv2.INTER_CUBIC), .75, fine, .25, 0)
        content = cv2.imencode('.jpg', image, [cv2.IMWRITE_JPEG_QUALITY, 92])[1].tobytes()
        path = root / 'train' / f'n{i % CLASSES:08d}' / f'n{i % CLASSES:08d}_{i}.JPEG'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        sizes.append(len(content))
    return statistics.mean(sizes) / 1000


def drop_from_cache(root: Path) -> None:
    """Drop the files in a folder from the page cache."""
    for path in root.rglob('*'):
        if path.is_file():
            with open(path, 'rb') as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def compare(number: int, rounds: int) -> None:
    """Print images per second for each layout."""
    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    with tempfile.TemporaryDirectory() as folder, DefaultScope.overwrite_default_scope('mmpretrain'):
        root = Path(folder)
        size = make_images(root / 'folders', number)
        data_command(['shards', f'{root}/folders', '--out', f'{root}/tar', '--no-check'])
        pipeline = Config.fromfile(PIPELINE).train_pipeline
        classes = dict(classes=tuple(map(str, range(CLASSES))))
        layouts = {'folders': DATASETS.build(dict(type='ImageNet', data_root=f'{root}/folders', split='train',
                                                  pipeline=pipeline, metainfo=classes))}
        layouts['tar'] = IndexedImages(f'{root}/tar', split='train', pipeline=pipeline)
        speeds: dict[tuple[str, str], list[float]] = {}
        for seed in range(rounds):
            order = np.random.default_rng(seed).permutation(number).tolist()
            for name, dataset in layouts.items():
                read = partial(_read, dataset)
                drop_from_cache(root / name)
                for what, run, clock in (('from disk', read, time.perf_counter), ('cached', read, time.process_time),
                                         ('augmented', dataset.__getitem__, time.process_time)):
                    start = clock()
                    for i in order:
                        run(i)
                    speeds.setdefault((what, name), []).append(number / (clock() - start))
    print(f'{number} images of {size:.0f} KB, {rounds} rounds, images per second')
    for (what, name), values in sorted(speeds.items()):
        ratios = [a / b for a, b in zip(values, speeds[what, 'folders'])]
        print(f'{what:<10}{name:<8}{statistics.median(values):>9.0f}  x{statistics.median(ratios):.2f}')


def _read(dataset: IndexedImages, number: int) -> int:
    return len(get(dataset.get_data_info(number)['img_path']))


class AllPages:
    """A data set that reads the whole index for every sample, as a full epoch does."""

    def __init__(self, images: IndexedImages) -> None:
        self.index = images.index

    def __len__(self) -> int:
        return 8

    def __getitem__(self, number: int) -> int:
        return int(self.index.rows['label'].max()) + int(self.index.names.max())


def index_of_paths(number: int) -> None:
    """Print the time to open an index of `number` paths, and the memory of loader processes after reading all of it."""
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder, 'train.index')
        write_index(index, (Entry(f'n{i // 650:08d}/n{i // 650:08d}_{i}.JPEG', i // 650) for i in range(number)), ())
        size = sum(path.stat().st_size for path in index.iterdir()) / MIB
        before, start = psutil.Process().memory_info().rss / MIB, time.perf_counter()
        dataset = IndexedImages(folder, split='train')
        opened, after = 1000 * (time.perf_counter() - start), psutil.Process().memory_info().rss / MIB
        print(f'{number} paths, {size:.0f} MiB, opened in {opened:.1f} ms; memory of the process {before:.0f} MiB '
              f'before and {after:.0f} MiB after')
        numbers = np.random.default_rng(0).integers(0, number, 100_000).tolist()
        start = time.process_time()
        for i in numbers:
            dataset.get_data_info(i)
        print(f'{1e6 * (time.process_time() - start) / len(numbers):.1f} us per sample')
        loader = DataLoader(AllPages(dataset), 1, num_workers=2, persistent_workers=True)
        for _ in loader:
            pass
        for worker in psutil.Process().children():
            memory = worker.memory_full_info()
            parts = ', '.join(f'{name.upper()} {getattr(memory, name) / MIB:.0f} MiB' for name in ('rss', 'uss', 'pss'))
            print(f'worker: {parts}')


@command_line
def main(argv: Sequence[str]) -> None:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--images', type=positive, default=1000, help='number of synthetic images (default: 1000)')
    parser.add_argument('--rounds', type=positive, default=7, help='rounds over all layouts (default: 7)')
    parser.add_argument('--paths', type=positive, help='measure an index of this many paths instead, such as 14197122')
    args = parser.parse_args(argv)
    if args.paths:
        index_of_paths(args.paths)
    else:
        compare(args.images, args.rounds)


if __name__ == '__main__':
    sys.exit(main())
