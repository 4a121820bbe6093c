"""Tar shards of class folders, indexing data, and reading both."""

import gzip
import io
import os
import pickle
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
from mmengine.fileio import get
from mmpretrain.datasets import ImageNet
from PIL import Image
from torch.utils.data import DataLoader

from mmflatten.cli.data import main
from mmflatten.datasets.image_index import ImageIndexError
from mmflatten.datasets.indexed_images import IndexedImageNet, IndexedImages
from mmflatten.datasets.shards import list_shards
from mmflatten.datasets.storage import ShardError, read_rgb
from mmflatten.registry import DATASETS
from mmflatten.untrusted.files import read_bytes

CLASSES = ('n01', 'n02', 'n03')


def make_image(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (24, 32, 3), np.uint8)).save(
        path, format='JPEG'
    )


@pytest.fixture
def folders(tmp_path) -> Path:
    """4 training and 2 validation images in each of 3 classes, in ImageNet's layout."""
    root = tmp_path / 'folders'
    for split, number in (('train', 4), ('val', 2)):
        for label, name in enumerate(CLASSES):
            for i in range(number):
                make_image(
                    root / split / name / f'{name}_{i}{"" if i else ".part"}.JPEG', 10 * label + i
                )
    (root / 'train' / 'n01' / '.hidden.JPEG').write_bytes(b'of another system')
    (root / 'train' / 'n01' / 'notes.txt').write_text('no image')
    return root


# The commands of docs/datasets.md, with shards of three images.
PACK = r"""
mkdir ../shards
for split in train val; do
    (cd $split && find * -name '[^.]*.JPEG' | LC_ALL=C sort | SPLIT=$split split -l 3 -a 5 -d \
        --filter 'tar -cf ../../shards/$SPLIT-$FILE.tar -T -' - '')
done
"""


@pytest.fixture
def shards(folders) -> Path:
    out = folders.parent / 'shards'
    subprocess.run(PACK, shell=True, cwd=folders, check=True)
    for split in ('train', 'val'):
        files = map(str, sorted(out.glob(f'{split}-*.tar')))
        assert main(['index', *files, '--out', str(out / f'{split}.index')]) == 0
    return out


def samples(dataset) -> list[tuple[bytes, int]]:
    infos = [dataset.get_data_info(i) for i in range(len(dataset))]
    return [(get(info['img_path']), info['gt_label']) for info in infos]


def reference(folders: Path, split: str = 'train') -> list[tuple[bytes, int]]:
    return samples(ImageNet(str(folders), split=split, metainfo=dict(classes=CLASSES)))


def test_shards_hold_the_images_of_the_folders_in_order(folders, shards):
    for split in ('train', 'val'):
        dataset = DATASETS.build(
            dict(type='mmflatten.IndexedImages', data_root=f'{shards}/', split=split)
        )
        assert samples(dataset) == reference(folders, split)
        assert dataset.metainfo['classes'] == CLASSES
        assert dataset.get_data_info(-1)['sample_idx'] == len(dataset) - 1
        assert dataset.get_data_info(1)['img_path'].endswith('#n01/n01_1.JPEG')
        with pytest.raises(IndexError):
            dataset.get_data_info(len(dataset))


def test_only_whole_regular_files_are_read(tmp_path):
    """Also files of unknown size, such as those of /proc; a pipe is not waited for."""
    (tmp_path / 'empty').touch()
    (tmp_path / 'image').write_bytes(bytes(range(256)) * 9000)
    (tmp_path / 'link').symlink_to('image')
    assert read_bytes(str(tmp_path / 'empty')) == b''
    assert (
        read_bytes(str(tmp_path / 'image'))
        == read_bytes(str(tmp_path / 'link'))
        == bytes(range(256)) * 9000
    )
    assert read_bytes('/proc/version') == Path('/proc/version').read_bytes() != b''
    os.mkfifo(tmp_path / 'pipe')
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'broken').symlink_to('nothing')
    for name, message in (
        ('pipe', 'is a pipe'),
        ('folder', 'is a folder'),
        ('broken', 'link to a missing file'),
        ('absent', 'No such file'),
        ('a\0b', 'null byte'),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            read_bytes(str(tmp_path / name))


@pytest.mark.parametrize('source', ['train', 'train.txt', 'folders.tar', 'labels.tar'])
def test_index_reads_folders_lists_and_tars(folders, tmp_path, source):
    out = folders / 'train.index'
    archive, members = folders / source, sorted((folders / 'train').glob('*/n*.JPEG'))
    if source == 'train.txt':
        archive.write_text(
            ''.join(
                f'{path.parent.name}/{path.name} {CLASSES.index(path.parent.name)}\n'
                for path in members
            )
        )
    elif source == 'folders.tar':
        make_tar(archive, {str(path.relative_to(folders)): path.read_bytes() for path in members})
    elif source == 'labels.tar':
        contents = {}
        for path in members:
            stem = path.stem.replace('.', '-')
            contents |= {
                f'{stem}.jpg': path.read_bytes(),
                f'{stem}.cls': b'%d' % CLASSES.index(path.parent.name),
            }
        make_tar(archive, contents)
    assert main(['index', str(archive), '--out', str(out)]) == 0
    assert samples(IndexedImages(str(folders), split='train')) == reference(folders)
    assert main(['index', str(archive), '--out', str(out)]) == 1  # the index exists


def test_indices_select_a_part(folders, shards):
    whole = reference(folders)
    for indices, expected in ((5, [0, 1, 2, 3, 4]), (-2, [10, 11]), ([7, 2], [7, 2])):
        part, images = (
            IndexedImages(str(shards), split='train', indices=chosen) for chosen in (indices, None)
        )
        subset = images.get_subset(indices)
        assert len(images) == 12
        images.get_subset_(indices)
        for dataset in (part, subset, images):
            assert samples(dataset) == [whole[i] for i in expected]


def test_pickled_dataset_reopens_the_index(folders, shards):
    dataset = IndexedImages(str(shards), split='train')
    sent = pickle.dumps(dataset)
    assert dataset.index.rows.tobytes() not in sent
    assert samples(pickle.loads(sent)) == reference(folders)


def test_loader_processes_read_the_same_shards(shards):
    dataset = IndexedImages(str(shards), split='train', pipeline=[dict(type='LoadImageFromFile')])
    # the workers are forked after reading
    images = [dataset[i]['img'] for i in range(len(dataset))]
    loaded = []
    for batch in DataLoader(dataset, 2, num_workers=2, collate_fn=list):
        loaded += [sample['img'] for sample in batch]
    np.testing.assert_array_equal(loaded, images)


def test_damaged_shards_and_indexes_are_named(shards):
    dataset = IndexedImages(str(shards), split='train')
    shard = shards / dataset.index.shards[-1]
    os.truncate(shard, 3000)
    with pytest.raises(ShardError, match=f'{shard} has .*n03/n03_3.JPEG'):
        get(dataset.get_data_info(11)['img_path'])
    with pytest.raises(ImageIndexError, match='3 classes.*val.index, got 1000'):
        IndexedImageNet(str(shards), split='val')
    rows = shards / 'val.index' / 'rows.bin'
    os.truncate(rows, rows.stat().st_size - 28)
    with pytest.raises(ImageIndexError, match='val.index is damaged'):
        IndexedImages(str(shards), split='val')
    rows.unlink()
    with pytest.raises(ImageIndexError, match='val.index.* rows.bin.*mmflatten data'):
        IndexedImages(str(shards), split='val')


def test_address_is_no_folder(shards):
    with pytest.raises(ValueError, match=r'data_root: .*s3://bucket/a.*Mount'):
        IndexedImages('s3://bucket/a', split='train', ann_file=str(shards / 'train.index'))


def make_tar(path: Path, contents: dict[str, bytes]) -> Path:
    with tarfile.open(path, 'w') as tar:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def test_indexing_unusable_sources_is_an_error(folders, tmp_path, capsys):
    text, listing, linked = (tmp_path / name for name in ('b.tar', 'h.txt', 'links.tar'))
    text.write_text('no archive')
    plain = make_tar(tmp_path / 'c.tar', {'n01/c.jpg': b'3'})
    flat = make_tar(tmp_path / 'd.tar', {'d.jpg': b'4'})
    unlabelled = make_tar(tmp_path / 'e.tar', {'a.jpg': b'1', 'a.cls': b'0', 'b.jpg': b'2'})
    labelled = make_tar(tmp_path / 'f.tar', {'a.jpg': b'1', 'a.cls': b'0'})
    large = make_tar(tmp_path / 'g.tar', {'a.jpg': b'1', 'a.cls': b'2147483648'})
    listing.write_text('n01/a.jpg 2147483648')
    compressed = tmp_path / 'i.tar.gz'
    compressed.write_bytes(gzip.compress(plain.read_bytes())[:100])
    with tarfile.open(linked, 'w') as file:
        file.add(folders / 'train/n01/n01_1.JPEG', 'n01/a.JPEG')
        link = tarfile.TarInfo('n01/b.JPEG')
        link.type, link.linkname = tarfile.LNKTYPE, 'n01/a.JPEG'
        file.addfile(link)
    for sources, words in (
        ([text], ['b.tar']),
        ([compressed], [str(compressed)]),
        ([unlabelled], ['b.jpg has no .cls']),
        ([tmp_path / 'no.tar'], ['no.tar does not exist']),
        ([plain, labelled], [str(plain), 'n01/c.jpg has no .cls']),
        ([flat], [f'{flat}: d.jpg']),
        ([large], ['g.tar: a.jpg', '2147483648']),
        ([listing], ['n01/a.jpg', '2147483648']),
        ([linked], [str(linked), 'n01/b.JPEG is a link to n01/a.JPEG']),
        ([folders, plain], [str(folders)]),
    ):
        assert main(['index', *map(str, sources), '--out', str(tmp_path / 'x.index')]) == 1
        error = capsys.readouterr().err.splitlines()[-1]
        assert all(word in error for word in words), error
    assert not list(tmp_path.glob('*.index*'))


def test_tar_that_ends_with_a_zip_member_is_listed(tmp_path):
    inner = tmp_path / 'a.npz'
    np.savez(inner, x=np.zeros(3))
    shard = make_tar(tmp_path / 'a.tar', {'n01/a.jpg': b'1', 'n01/a.npz': inner.read_bytes()})
    (image,), classes = list_shards([shard])
    assert image.name == 'n01/a.jpg' and classes == ['n01']


def state_size(data: bytes, at: int, size: bytes) -> bytes:
    """Write another size into a header, with its checksum."""
    header = bytearray(data[at : at + 512])
    header[124:136], header[148:156] = size, b' ' * 8
    header[148:156] = b'%06o\0 ' % sum(header)
    return data[:at] + bytes(header) + data[at + 512 :]


# Changes to a tar whose third image begins at byte `at`.
DAMAGES = {
    'cut in a header': lambda data, at: data[: at + 200],
    'cut between members': lambda data, at: data[:at],
    'a wrong checksum': lambda data, at: data[: at + 148] + b'9999999' + data[at + 155 :],
    'zeros for the first header': lambda data, at: bytes(512) + data[512:],
    'zeros for a header': lambda data, at: data[:at] + bytes(512) + data[at + 512 :],
    'cut in an image': lambda data, at: data[: at + 700],
    'a size beyond the file': lambda data, at: state_size(data, at, b'00000100000\0'),
    'a huge size': lambda data, at: state_size(data, at, b'\x80' + b'\x7f' * 11),
    'a negative size': lambda data, at: state_size(data, at, b'\xff' * 11 + b'\x00'),
}


@pytest.mark.parametrize('damage', DAMAGES)
def test_indexing_a_damaged_tar_is_an_error(tmp_path, capsys, damage):
    rng = np.random.default_rng(0)
    shard = make_tar(tmp_path / 'a.tar', {f'n0{i % 2}/{i}.jpg': rng.bytes(1000) for i in range(4)})
    data = shard.read_bytes()
    shard.write_bytes(DAMAGES[damage](data, data.index(b'n00/2.jpg')))
    assert main(['index', str(shard), '--out', str(tmp_path / 'a.index')]) == 1
    assert str(shard) in capsys.readouterr().err and not list(tmp_path.glob('*.index*'))


def test_read_rgb_reads_shards(shards):
    path = IndexedImages(str(shards), split='val').get_data_info(0)['img_path']
    assert read_rgb(path).shape == (24, 32, 3)
    with pytest.raises(FileNotFoundError, match='nothing.jpg'):
        read_rgb('nothing.jpg')
