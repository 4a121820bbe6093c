"""Fashion-MNIST: locating and verifying its files."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from mmflatten_lab.commands.garments import main
from mmflatten_lab.garments import fashion
from mmflatten_lab.garments.fashion import SHA256, find_files, load_garments

SIDE = fashion.SIDE


@pytest.fixture
def usual(monkeypatch, tmp_path) -> list[Path]:
    """The two default folders, both empty."""
    folders = [tmp_path / 'a', tmp_path / 'b']
    for name, folder in zip(('RAW_FOLDER', 'DEBIAN_FOLDER'), folders):
        monkeypatch.setattr(fashion, name, folder)
    return folders


def test_missing_files_error_says_how_to_obtain_them(usual, tmp_path, capsys):
    assert main(['scenes', '--out', str(tmp_path / 'x')]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert all(str(folder) in line for folder in usual)
    assert 'dataset-fashion-mnist' in line and '--download' in line


def test_files_option_excludes_default_folders(fashion_files, tmp_path):
    assert find_files(fashion_files) == fashion_files
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        find_files(tmp_path)


def test_first_complete_default_folder_is_used(usual, fashion_files):
    for folder in usual:
        shutil.copytree(fashion_files, folder)
    (usual[0] / next(iter(SHA256))).unlink()
    assert find_files() == usual[1]


@pytest.mark.parametrize('name', SHA256)
def test_changed_file_is_an_error(tmp_path, fashion_files, name):
    shutil.copytree(fashion_files, tmp_path / 'raw')
    content = bytearray((tmp_path / 'raw' / name).read_bytes())
    content[-1] ^= 1
    (tmp_path / 'raw' / name).write_bytes(content)
    with pytest.raises(ValueError, match=f'{name}: expected the SHA-256'):
        load_garments('train' if name.startswith('train') else 'val', tmp_path / 'raw')


@pytest.mark.skipif(
    not fashion.DEBIAN_FOLDER.is_dir(), reason='dataset-fashion-mnist is not installed'
)
def test_published_files_begin_with_the_subset(fashion_files):
    for split, number in (('train', 60_000), ('val', 10_000)):
        whole, part = (
            load_garments(split, fashion.DEBIAN_FOLDER),
            load_garments(split, fashion_files),
        )
        assert whole.images.shape == (number, SIDE, SIDE)
        assert (np.bincount(whole.labels) == number // 10).all()
        np.testing.assert_array_equal(whole.images[: len(part.labels)], part.images)
        np.testing.assert_array_equal(whole.labels[: len(part.labels)], part.labels)


def test_splits_share_no_garment(fashion_files):
    train, val = (load_garments(split, fashion_files) for split in ('train', 'val'))
    assert len(train.labels) == 1000 and len(val.labels) == 200
    assert not set(train.numbers) & set(val.numbers)
    assert not {image.tobytes() for image in train.images} & {
        image.tobytes() for image in val.images
    }


def test_command_builds_once(tmp_path, fashion_files, capsys):
    arguments = [
        'scenes',
        '--out',
        str(tmp_path / 'x'),
        '--files',
        str(fashion_files),
        '--train',
        '2',
        '--val',
        '1',
    ]
    assert main(arguments) == 0 and (tmp_path / 'x' / 'images').is_dir()
    assert main(arguments) == 0 and 'nothing to do' in capsys.readouterr().out


def test_number_out_of_range_is_named(tmp_path, fashion_files, capsys):
    assert (
        main(
            ['scenes', '--size', '31', '--out', str(tmp_path / 'x'), '--files', str(fashion_files)]
        )
        == 1
    )
    assert '31' in capsys.readouterr().err and list(tmp_path.iterdir()) == []
