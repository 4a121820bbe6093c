"""Memory-mapped index: round trip, damage, and memory of loader processes."""

import subprocess
import sys

import numpy as np
import pytest

from mmflatten.datasets.image_index import Entry, ImageIndex, ImageIndexError, write_index
from mmflatten.datasets.indexed_images import IndexedImages

NUMBER = 200_000


@pytest.fixture(scope='module')
def paths(tmp_path_factory):
    """Folder and entries of an index of 200,000 images in 300 classes."""
    root = tmp_path_factory.mktemp('index')
    entries = [Entry(f'n{i % 300:08d}/n{i % 300:08d}_{i}.JPEG', i % 300) for i in range(NUMBER)]
    assert write_index(root / 'train.index', entries, [f'n{i:08d}' for i in range(300)]) == NUMBER
    return root, entries


def test_index_round_trip(tmp_path):
    entries = [
        Entry('a/b/1.jpg', 7),
        Entry('a/2.jpg', 7),
        Entry('3.jpg', 8),
        Entry('4.jpg', 7),
        Entry('a/b/5.jpg', 7),
        Entry('ảnh/\udcff#?.jpg', 2**31 - 1, 1, 2**40, 2**32 - 1),
    ]
    for name, shards in (('files', []), ('members', ['a.tar', 'b.tar'])):
        write_index(tmp_path / name, entries, ['x'], shards)
        index = ImageIndex(tmp_path / name)
        read = [index[i] for i in range(len(index))]
        assert (
            read == entries
            if shards
            else [entry[:2] for entry in read] == [entry[:2] for entry in entries]
        )
        assert index.classes == ('x',) and index.shards == shards


def test_index_opens_without_reading_rows(paths):
    root, entries = paths
    dataset = IndexedImages(str(root), split='train')
    dataset.full_init()
    assert isinstance(dataset.index.rows.base, np.memmap) and isinstance(dataset.data_list, range)
    for i in np.random.default_rng(0).integers(0, NUMBER, 100).tolist():
        assert dataset.get_data_info(i) == dict(
            img_path=f'{root}/train/{entries[i].name}', gt_label=entries[i].label, sample_idx=i
        )


# In a separate process, because a worker copies the pages of its parent that it writes to. One
# sample in 20 touches every page of the index, and would touch every page of a list of strings.
READ_ALL = """
import sys, psutil
from torch.utils.data import DataLoader
from mmflatten.datasets.indexed_images import IndexedImages
dataset = IndexedImages(sys.argv[1], split='train')
loader = DataLoader(dataset, 100, sampler=range(0, len(dataset), 20), num_workers=1, collate_fn=len,
                    persistent_workers=True)
iterator = iter(loader)
number, (worker, ) = next(iterator), psutil.Process().children()
def private():
    return sum(
        part.private_dirty
        for part in worker.memory_maps()
        if not part.path.startswith(sys.argv[1]))

before = private()
number += sum(iterator)
print(number, private() - before)
"""


def test_loader_process_does_not_copy_the_index(paths):
    done = subprocess.run(
        [sys.executable, '-c', READ_ALL, paths[0]], capture_output=True, text=True, check=True
    )
    number, grown = map(int, done.stdout.split()[-2:])
    # the names have 6 MiB, or 16 MiB as Python strings
    assert number == NUMBER // 20 and grown < 4 * 2**20


@pytest.mark.parametrize(
    'damage, words',
    [
        (lambda folder: (folder / 'index.json').write_text('{'), 'damaged'),
        (lambda folder: (folder / 'index.json').write_text('{"format": 1}'), 'damaged.*images'),
        (lambda folder: (folder / 'names.bin').write_bytes(b''), 'damaged'),
        (lambda folder: (folder / 'names.bin').write_bytes(b'abc'), 'damaged.*3 bytes of names'),
        (lambda folder: (folder / 'index.json').unlink(), 'index.json.*mmflatten data index'),
    ],
)
def test_damaged_index_is_an_error(tmp_path, damage, words):
    write_index(tmp_path / 'a.index', [Entry('a/1.jpg', 0)], [])
    damage(tmp_path / 'a.index')
    with pytest.raises(ImageIndexError, match=f'{tmp_path}/a.index.*{words}'):
        ImageIndex(tmp_path / 'a.index')


def test_empty_index_is_an_error(tmp_path):
    with pytest.raises(ValueError, match='source: no images'):
        write_index(tmp_path / 'a.index', [], [])


def test_names_beyond_4_gib_are_read(tmp_path):
    folder = tmp_path / 'a.index'
    write_index(folder, [Entry('n01/1.jpg', 0), Entry('n02/2.jpg', 1)], ['n01', 'n02'])
    start = 2**32 + 5
    with open(folder / 'names.bin', 'r+b') as names:  # a sparse file
        names.truncate(start)
        names.seek(start)
        names.write(b'n03/3.jpg')
    rows = np.fromfile(folder / 'rows.bin', dtype=[('name_end', '<u8'), ('label', '<i4')])
    rows['name_end'] = start, start + 9
    rows.tofile(folder / 'rows.bin')
    assert ImageIndex(folder)[1].name == 'n03/3.jpg'
