"""Class folders packed into shards, and what reads them: the same images in the same order, from files and objects."""
import errno
import gzip
import io
import os
import pickle
import stat
import sys
import tarfile
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import lmdb
import numpy as np
import pytest
from mmengine.fileio import get
from mmpretrain.datasets import ImageNet
from PIL import Image
from torch.utils.data import DataLoader

from mmflatten.cli.data import main
from mmflatten.datasets import archives, build, lmdb_files
from mmflatten.datasets.indexed_images import IndexedImageNet, IndexedImages
from mmflatten.datasets.storage import ShardError, read_rgb
from mmflatten.registry import DATASETS

CLASSES = ('n01', 'n02', 'n03')


def make_image(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (24, 32, 3), np.uint8)).save(path, format='JPEG')


@pytest.fixture
def folders(tmp_path) -> Path:
    """4 training and 2 validation images in each of 3 classes, in ImageNet's layout."""
    root = tmp_path / 'folders'
    for split, number in (('train', 4), ('val', 2)):
        for label, name in enumerate(CLASSES):
            for i in range(number):
                make_image(root / split / name / f'{name}_{i}{"" if i else ".part"}.JPEG', 10 * label + i)
    (root / 'train' / 'n01' / '.hidden.JPEG').write_bytes(b'of another system')
    (root / 'train' / 'n01' / 'notes.txt').write_text('no image')
    return root


@pytest.fixture(params=['tar', 'zip', 'lmdb'])
def shards(folders, request) -> Path:
    out = folders.parent / 'shards'
    assert main(['shards', str(folders), '--out', str(out), '--format', request.param]) == 0
    return out


def samples(dataset) -> list[tuple[bytes, int]]:
    infos = [dataset.get_data_info(i) for i in range(len(dataset))]
    return [(get(info['img_path']), info['gt_label']) for info in infos]


def reference(folders: Path, split: str = 'train') -> list[tuple[bytes, int]]:
    return samples(ImageNet(str(folders), split=split, metainfo=dict(classes=CLASSES)))


@pytest.mark.parametrize('split', ['train', 'val'])
def test_shards_hold_the_images_of_the_folders_in_their_order(folders, shards, split):
    dataset = DATASETS.build(dict(type='mmflatten.IndexedImages', data_root=f'{shards}/', split=split))
    assert samples(dataset) == reference(folders, split)
    assert dataset.metainfo['classes'] == CLASSES
    assert dataset.get_data_info(-1)['sample_idx'] == len(dataset) - 1
    assert dataset.get_data_info(1)['img_path'].endswith('#n01/n01_1.JPEG')
    with pytest.raises(IndexError):
        dataset.get_data_info(len(dataset))


def test_a_shard_is_closed_at_its_size_and_names_samples_as_webdataset_does(folders, tmp_path, monkeypatch):
    monkeypatch.setattr('mmflatten.cli.data_shards.build_shards', partial(_with_shards_of_three, folders))
    out = tmp_path / 'small'
    assert main(['shards', str(folders), '--out', str(out)]) == 0
    files = sorted(path.name for path in out.glob('train-*'))
    assert files == [f'train-00000{i}.tar' for i in range(4)]
    with tarfile.open(out / 'train-000000.tar') as shard:
        names = shard.getnames()
        assert names[:2] == ['n01/n01_0_part.JPEG', 'n01/n01_0_part.cls'] and len(names) == 6
        assert shard.extractfile(names[1]).read() == b'0'
    assert samples(IndexedImages(str(out), split='train')) == reference(folders)


def _with_shards_of_three(folders, splits, out, kind, limit, *more):
    from mmflatten.datasets.shards import build_shards
    three = 3 * (folders / 'train/n01/n01_1.JPEG').stat().st_size - 100
    return build_shards(splits, out, kind, three, *more)


@pytest.mark.parametrize('source', ['train', 'train.txt', 'folders.tar', 'folders.zip', 'folders.lmdb', 'labels.tar'])
def test_an_index_of_what_is_there(folders, tmp_path, source):
    out = folders / 'train.index'
    archive, members = folders / source, sorted((folders / 'train').glob('*/n*.JPEG'))
    if source == 'train.txt':
        archive.write_text(''.join(f'{path.parent.name}/{path.name} {CLASSES.index(path.parent.name)}\n'
                                   for path in members))
    elif source == 'folders.zip':
        with zipfile.ZipFile(archive, 'w') as file:
            for path in members:
                file.write(path, path.relative_to(folders))
    elif source == 'folders.lmdb':  # as other programs make it: a folder, a name for a key
        with lmdb.open(str(archive), map_size=2**20) as file, file.begin(write=True) as transaction:
            for path in members:
                transaction.put(str(path.relative_to(folders)).encode(), path.read_bytes())
            transaction.put(b'__len__', b'12')
    elif source.endswith('.tar'):
        with tarfile.open(archive, 'w') as file:
            for path in members:
                named = f'{path.stem.replace(".", "-")}.jpg' if source == 'labels.tar' else path.relative_to(folders)
                file.add(path, str(named))
                if source == 'labels.tar':
                    label = tarfile.TarInfo(named.replace('.jpg', '.cls'))
                    label.size = 1
                    file.addfile(label, io.BytesIO(str(CLASSES.index(path.parent.name)).encode()))
    assert main(['index', str(archive), '--out', str(out)]) == 0
    assert samples(IndexedImages(str(folders), split='train')) == reference(folders)
    assert main(['index', str(archive), '--out', str(out)]) == 2  # it is there


@pytest.mark.parametrize('indices, expected', [(5, [0, 1, 2, 3, 4]), (-2, [10, 11]), ([7, 2], [7, 2])])
def test_a_part_of_an_index(folders, shards, indices, expected):
    part = IndexedImages(str(shards), split='train', indices=indices)
    whole, images = reference(folders), IndexedImages(str(shards), split='train')
    later = images.get_subset(indices)
    assert len(images) == 12
    images.get_subset_(indices)
    for dataset in (part, later, images):
        assert samples(dataset) == [whole[i] for i in expected]


def test_a_data_set_for_another_process_opens_the_index_again(folders, shards):
    dataset = IndexedImages(str(shards), split='train')
    sent = pickle.dumps(dataset)
    assert dataset.index.rows.tobytes() not in sent
    assert samples(pickle.loads(sent)) == reference(folders)


def test_loader_processes_read_the_same_shards(shards):
    dataset = IndexedImages(str(shards), split='train', pipeline=[dict(type='LoadImageFromFile')])
    images = [dataset[i]['img'] for i in range(len(dataset))]  # the processes are forked with open shards
    loaded = [sample['img'] for batch in DataLoader(dataset, 2, num_workers=2, collate_fn=list) for sample in batch]
    np.testing.assert_array_equal(loaded, images)


def test_shards_in_object_storage(folders, shards):
    store = fsspec.filesystem('memory')
    for path in shards.glob('train-*'):
        store.pipe(f'/bucket/imagenet/{path.name}', path.read_bytes())
    dataset = IndexedImages('memory://bucket/imagenet', ann_file=str(shards / 'train.index'), split='train')
    if list(shards.glob('*.lmdb')):
        with pytest.raises(ShardError, match='memory://bucket/imagenet/train-000000.lmdb'):
            samples(dataset)
    else:
        assert samples(dataset) == reference(folders)


def test_images_in_object_storage(folders, tmp_path):
    index = tmp_path / 'train.index'
    assert main(['index', str(folders / 'train'), '--out', str(index)]) == 0
    store = fsspec.filesystem('memory')
    store.put(str(folders / 'train'), '/images/train', recursive=True)
    dataset = IndexedImages('memory://images', split='train', ann_file=str(index), pipeline=[
        dict(type='LoadImageFromFile', backend_args=dict(backend='fsspec'))])
    assert dataset[3]['img'].shape == (24, 32, 3) and dataset[3]['img_path'] == 'memory://images/train/n01/n01_3.JPEG'

    handler = type('Quiet', (SimpleHTTPRequestHandler,), dict(log_message=lambda *args: None))
    with ThreadingHTTPServer(('127.0.0.1', 0), partial(handler, directory=str(folders))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = f'http://127.0.0.1:{server.server_port}'
        assert samples(IndexedImages(root, split='train', ann_file=str(index))) == reference(folders)
        server.shutdown()


def test_what_is_wrong_with_a_shard_or_an_index_is_named(shards):
    dataset = IndexedImages(str(shards), split='train')
    shard = shards / dataset.index.shards[0]
    begin = shard.read_bytes()[:5000]
    shard.unlink()  # a copy that was cut off takes its place
    shard.write_bytes(begin)
    named = f'{shard} has .*' + ('' if shard.suffix == '.lmdb' else 'n03/n03_3.JPEG')
    with pytest.raises((ShardError, ValueError), match=named):
        get(dataset.get_data_info(11)['img_path'])
    with pytest.raises(RuntimeError, match='val.index has 3 classes and metainfo.classes 1000'):
        IndexedImageNet(str(shards), split='val')
    rows = shards / 'val.index' / 'rows.bin'
    os.truncate(rows, rows.stat().st_size - 28)
    with pytest.raises(RuntimeError, match='val.index is damaged'):
        IndexedImages(str(shards), split='val')
    rows.unlink()
    with pytest.raises(RuntimeError, match='val.index.* rows.bin.*mmflatten data'):
        IndexedImages(str(shards), split='val')


def test_broken_images_are_named_and_nothing_is_left(folders, tmp_path, capsys):
    broken, out = folders / 'train/n02/n02_2.JPEG', tmp_path / 'shards'
    broken.write_bytes(broken.read_bytes()[:-200])
    assert main(['shards', str(folders), '--out', str(out)]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert str(broken) in error and '--skip-broken' in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ['folders']

    assert main(['shards', str(folders), '--out', str(out), '--skip-broken']) == 0
    assert f'left out: {broken}' in capsys.readouterr().err
    assert len(IndexedImages(str(out), split='train')) == 11
    assert main(['shards', str(folders), '--out', str(tmp_path / 'all'), '--no-check']) == 0
    assert len(IndexedImages(str(tmp_path / 'all'), split='train')) == 12


def test_interrupted_or_without_room_nothing_is_left(folders, tmp_path, capsys, monkeypatch):
    out = tmp_path / 'shards'
    for error, status, word in ((OSError(errno.ENOSPC, 'No space left on device'), 2, f'while writing {out}'),
                                (KeyboardInterrupt(), 130, str(out))):
        def fail(*args, error=error):
            raise error
        with monkeypatch.context() as context:
            context.setattr(archives.ShardWriter, 'add', fail)
            assert main(['shards', str(folders), '--out', str(out)]) == status
        assert word in capsys.readouterr().err
        assert sorted(path.name for path in tmp_path.iterdir()) == ['folders']
    usage = type('Usage', (), dict(free=1000))
    monkeypatch.setattr(build.shutil, 'disk_usage', lambda path: usage)
    assert main(['shards', str(folders), '--out', str(out)]) == 2
    assert str(tmp_path) in capsys.readouterr().err and not out.exists()


@pytest.mark.parametrize('prepare, words', [
    (lambda root: root.rename(root.with_name('elsewhere')), ['train/', 'val/']),
    (lambda root: (root / 'val' / 'n02').rename(root / 'val' / 'n04'), ['n02']),
    (lambda root: [path.unlink() for path in (root / 'val').glob('*/*')], ['val', '.jpeg']),
    (lambda root: (root / 'meta').mkdir() or (root / 'meta/train.txt').write_text('a.jpg 0\nb.jpg'),
     ['train.txt, line 2', 'b.jpg']),
    (lambda root: (root / 'meta').mkdir() or (root / 'meta/train.txt').write_text('n01/absent.jpg 0'), ['absent.jpg']),
])
def test_sources_that_cannot_be_packed(folders, tmp_path, capsys, prepare, words):
    prepare(folders)
    assert main(['shards', str(folders), '--out', str(tmp_path / 'shards')]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert all(word in error for word in words) and not (tmp_path / 'shards').exists()


def make_tar(path: Path, contents: dict[str, bytes]) -> Path:
    writer = archives.TarWriter(path)
    for name, content in contents.items():
        writer.write(name, content)
    writer.close()
    return path


def test_sources_that_cannot_be_listed(folders, tmp_path, capsys):
    compressed, text, linked = (tmp_path / name for name in ('a.zip', 'b.tar', 'links.tar'))
    with zipfile.ZipFile(compressed, 'w', zipfile.ZIP_DEFLATED) as file:
        file.write(folders / 'train/n01/n01_1.JPEG', 'n01/n01_1.JPEG')
    text.write_text('no archive')
    plain = make_tar(tmp_path / 'c.tar', {'n01/c.jpg': b'3'})
    flat = make_tar(tmp_path / 'd.tar', {'d.jpg': b'4'})
    unlabelled = make_tar(tmp_path / 'e.tar', {'a.jpg': b'1', 'a.cls': b'0', 'b.jpg': b'2'})
    labelled = make_tar(tmp_path / 'f.tar', {'a.jpg': b'1', 'a.cls': b'0'})
    large = make_tar(tmp_path / 'g.tar', {'a.jpg': b'1', 'a.cls': b'2147483648'})
    listed = tmp_path / 'h.txt'
    listed.write_text('n01/a.jpg 2147483648')
    zipped_link = tmp_path / 'i.zip'
    with zipfile.ZipFile(zipped_link, 'w') as file:
        link = zipfile.ZipInfo('n01/b.JPEG')
        link.external_attr = (stat.S_IFLNK | 0o777) << 16  # as zip -y stores it
        file.writestr(link, 'a.JPEG')
    with tarfile.open(linked, 'w') as file:
        file.add(folders / 'train/n01/n01_1.JPEG', 'n01/a.JPEG')
        link = tarfile.TarInfo('n01/b.JPEG')
        link.type, link.linkname = tarfile.LNKTYPE, 'n01/a.JPEG'
        file.addfile(link)
    for sources, words in (([compressed], ['n01_1.JPEG is compressed']), ([text], ['b.tar']),
                           ([unlabelled], ['b.jpg has no .cls']), ([tmp_path / 'no.tar'], ['no.tar does not exist']),
                           ([plain, labelled], [str(plain), 'n01/c.jpg has no .cls']), ([flat], [f'{flat}: d.jpg']),
                           ([large], ['g.tar: a.jpg', '2147483648']), ([listed], ['n01/a.jpg', '2147483648']),
                           ([linked], [str(linked), 'n01/b.JPEG is a link to n01/a.JPEG']),
                           ([zipped_link], [str(zipped_link), 'n01/b.JPEG is a link']),
                           ([folders, compressed], [str(folders)])):
        assert main(['index', *map(str, sources), '--out', str(tmp_path / 'x.index')]) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert all(word in error for word in words), error
    assert not list(tmp_path.glob('*.index*'))


def test_a_tar_whose_last_member_is_a_zip_is_a_tar(tmp_path):
    inner = tmp_path / 'a.npz'
    np.savez(inner, x=np.zeros(3))
    shard = make_tar(tmp_path / 'a.tar', {'n01/a.jpg': b'1', 'n01/a.npz': inner.read_bytes()})
    assert [name for name, *_ in archives.members(shard)] == ['n01/a.jpg', 'n01/a.npz']
    shard.write_bytes(bytes(100) + shard.read_bytes()[100:])
    with pytest.raises(ValueError, match='a.tar'):
        archives.members(shard)


def test_a_compressed_tar_that_is_cut_is_named(tmp_path):
    shard = tmp_path / 'a.tar.gz'
    shard.write_bytes(gzip.compress(make_tar(tmp_path / 'a.tar', {'n01/a.jpg': b'1'}).read_bytes())[:100])
    with pytest.raises(ValueError, match='a.tar.gz'):
        archives.members(shard)


# Changes to an archive whose third image begins at a byte.
DAMAGES = {
    'tar': {
        'cut in a header': lambda data, at: data[:at + 200],
        'cut between members': lambda data, at: data[:at],
        'a wrong checksum': lambda data, at: data[:at + 148] + b'9999999' + data[at + 155:],
        'zeros for a header': lambda data, at: data[:at] + bytes(512) + data[at + 512:],
        'cut in an image': lambda data, at: data[:at + 700]},
    'zip': {
        'cut at the end': lambda data, at: data[:-9],
        'without its beginning': lambda data, at: data[300:],
        'without its first images': lambda data, at: data[at:],
        'other bytes for a header': lambda data, at: data[:at] + b'....' + data[at + 4:],
        'encrypted': lambda data, at: data.replace(b'PK\1\2\x14\3\x14\0\0', b'PK\1\2\x14\3\x14\0\1')}}


@pytest.mark.parametrize('kind, damage', [(kind, damage) for kind in DAMAGES for damage in DAMAGES[kind]])
def test_an_archive_that_is_not_whole_is_not_listed(tmp_path, capsys, kind, damage):
    shard, rng = tmp_path / f'a.{kind}', np.random.default_rng(0)
    writer = archives.WRITERS[kind](shard)
    for i in range(4):
        writer.write(f'n0{i % 2}/{i}.jpg', rng.bytes(1000))
    writer.close()
    data = shard.read_bytes()
    shard.write_bytes(DAMAGES[kind][damage](data, data.index(b'n00/2.jpg') - (30 if kind == 'zip' else 0)))
    assert main(['index', str(shard), '--out', str(tmp_path / 'a.index')]) == 2
    assert str(shard) in capsys.readouterr().err and not list(tmp_path.glob('*.index*'))


def test_pictures_are_read_from_shards_too(shards):
    path = IndexedImages(str(shards), split='val').get_data_info(0)['img_path']
    assert read_rgb(path).shape == (24, 32, 3)
    with pytest.raises(FileNotFoundError, match='nothing.jpg'):
        read_rgb('nothing.jpg')


def test_an_lmdb_keeps_the_order_of_the_folders_where_its_keys_would_sort_otherwise(folders, tmp_path):
    for split in ('train', 'val'):
        (folders / split / 'n03').rename(folders / split / 'n01-a')  # 'n01-a/...' comes before 'n01/...'
    out = tmp_path / 'shards'
    assert main(['shards', str(folders), '--out', str(out), '--format', 'lmdb']) == 0
    whole = samples(ImageNet(str(folders), split='train', metainfo=dict(classes=['n01', 'n01-a', 'n02'])))
    assert samples(IndexedImages(str(out), split='train')) == whole
    assert main(['index', str(out / 'train-000000.lmdb'), '--out', str(out / 'again.index')]) == 0
    assert samples(IndexedImages(str(out), split='train', ann_file='again.index')) == whole


@pytest.mark.parametrize('open_at_once', [1, 2])
def test_lmdbs_are_read_under_any_name_however_few_are_open_at_once(folders, tmp_path, monkeypatch, open_at_once):
    readers: dict = {}
    monkeypatch.setattr(lmdb_files, '_READERS', readers)
    monkeypatch.setattr(lmdb_files, '_MAX_OPEN', open_at_once)
    monkeypatch.setattr('mmflatten.cli.data_shards.build_shards', partial(_with_shards_of_three, folders))
    monkeypatch.chdir(tmp_path)
    assert main(['shards', str(folders), '--out', 'shards', '--format', 'lmdb']) == 0
    whole = reference(folders)
    for root in ('shards', str(tmp_path / 'shards')):
        assert samples(IndexedImages(root, split='train')) == whole and len(readers) <= open_at_once


def test_an_lmdb_that_cannot_be_written_or_without_the_library(folders, tmp_path, capsys, monkeypatch):
    command = ['shards', str(folders), '--out', str(tmp_path / 'shards'), '--format', 'lmdb']
    for prepare, words in ((lambda patch: patch.setattr(lmdb_files, '_MAP_SIZE', 2**15), ['train-000000.lmdb']),
                           (lambda patch: patch.setitem(sys.modules, 'lmdb', None), ['pip install', 'lmdb>='])):
        with monkeypatch.context() as patch:
            prepare(patch)
            assert main(command) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert all(word in error for word in words), error
        assert sorted(path.name for path in tmp_path.iterdir()) == ['folders']
    make_image(folders / 'train/n01/n01_0_part.JPEG', 50)  # beside n01_0.part.JPEG
    make_image(folders / 'train/n01/n01_0.part.JPEG', 51)
    assert main(command) == 2 and 'n01_0_part.JPEG' in capsys.readouterr().err.splitlines()[-1]
    (folders / 'train/n01/n01_0_part.JPEG').unlink()
    (folders / 'train/n01' / f'{"x" * 230}').mkdir()
    deep = folders / 'train/n01' / f'{"x" * 230}' / f'{"y" * 230}'
    deep.mkdir()
    make_image(deep / f'{"z" * 100}.JPEG', 0)
    assert main(command) == 2
    assert f'{"z" * 100}.JPEG has' in capsys.readouterr().err
